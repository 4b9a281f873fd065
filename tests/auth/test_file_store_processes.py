import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_sdk import LoginRequiredError
from gateway_sdk.auth import PrivateFileStore, SharedTokenSource
from gateway_sdk.auth.token import text_of
from tests.support.file_store import names_in
from tests.support.logins import KEY, make_token
from tests.support.secrecy import CANARY

PRELUDE = """
import asyncio, os, signal, sys
from pathlib import Path
from gateway_sdk.auth import PrivateFileStore, Token, TokenKey

name, folder, *key = sys.argv[1:]
store = PrivateFileStore(TokenKey(*key), folder)

def save(number):
    asyncio.run(store.save(Token(f"{name}-{number}-" + "x" * 5000, obtained_at=number)))
"""
SAVES = 60
WRITER = f"{PRELUDE}\nfor number in range({SAVES}): save(number)"
DIES = """
def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

def die_the_second_time(*arguments):
    os.fsync = die

"""
DEATHS = {
    "before the draft is there": "os.open = die",
    "while the draft is written": "os.fsync = die",
    "before the draft takes the file's place": "Path.replace = die",
    "after that": "os.fsync = die_the_second_time",
}

# In a mount namespace of the process, so that the file system goes when the process ends.
IN_FOUR_KIBIBYTES = (
    *("unshare", "--mount", "sh", "-c"),
    'mount -t tmpfs -o size=4k,mode=0700 tmpfs "$0" && exec "$@"',
)
FULL_DISK = """
def keep(name):
    asyncio.run(store.save(Token(name, obtained_at=0)))

keep("old")
try:
    keep("new")
except Exception as error:
    print(error)
print(asyncio.run(store.load()).value.get_secret_value())
print(*os.listdir(folder))
"""


@pytest.fixture
def store(tmp_path: Path) -> PrivateFileStore:
    return PrivateFileStore(KEY, tmp_path / "tokens")


class Starter:
    """Starts processes that use a store."""

    def __init__(self, store: PrivateFileStore) -> None:
        self._store = store
        self.started: list[subprocess.Popen[str]] = []

    def __call__(self, code: str, name: str, *within: str) -> subprocess.Popen[str]:
        """Start a process that runs code under a name, or within another program."""
        key = (KEY.authorization_url, KEY.client_id, KEY.gateway)
        process = subprocess.Popen(
            [*within, sys.executable, "-c", code, name, str(self._store.path.parent), *key],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        self.started.append(process)
        return process


@pytest.fixture
def start(store: PrivateFileStore) -> Iterator[Starter]:
    """Provide the starter of processes; it ends all of them after the test."""
    starter = Starter(store)
    yield starter
    for process in starter.started:
        process.kill()
        process.communicate()


async def test_processes_that_save_at_once_never_break_the_file(
    store: PrivateFileStore, start: Starter
) -> None:
    """While two processes write, a third one reads only whole tokens; no draft is left."""
    await store.save(make_token("kept"))
    writers = [start(WRITER, name) for name in ("one", "two")]
    read: set[str] = set()
    while any(writer.poll() is None for writer in writers):
        token = await store.load()
        assert token is not None
        read.add(text_of(token))

    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(read) > 1
    for text in read - {f"{CANARY}-kept"}:
        name, number, rest = text.split("-")
        assert name in ("one", "two")
        assert int(number) in range(SAVES)
        assert rest == "x" * 5000
    last = await store.load()
    assert last is not None
    assert last.obtained_at == SAVES - 1
    assert names_in(store.path.parent) == [store.path.name]


@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
async def test_a_writer_that_is_killed_leaves_the_old_token_or_the_new(
    store: PrivateFileStore, start: Starter, death: str
) -> None:
    """At each step, the file that is left is whole, and the next writer works."""
    await store.save(old := make_token("old"))
    writer = start(f"{PRELUDE}{DIES}{death}\nsave(7)", "new")
    assert await asyncio.to_thread(writer.wait) == -signal.SIGKILL

    token = await store.load()

    assert token is not None
    if death.endswith("die_the_second_time"):
        assert token.obtained_at == 7
    else:
        assert token == old
    await store.save(newer := make_token("newer"))
    assert await store.load() == newer


async def test_a_writer_that_is_killed_at_any_moment_breaks_nothing(
    store: PrivateFileStore, start: Starter
) -> None:
    """A process that saves in a loop is killed, and its last token is whole."""
    writer = start(
        f"{PRELUDE}import itertools\nprint('ready', flush=True)\n"
        "for number in itertools.count(): save(number)",
        "one",
    )
    assert writer.stdout is not None
    await asyncio.to_thread(writer.stdout.readline)
    while (token := await store.load()) is None or token.obtained_at < 20:
        pass

    writer.kill()
    await asyncio.to_thread(writer.wait)

    token = await store.load()
    assert token is not None
    assert text_of(token).endswith("x" * 5000)


def can_mount() -> bool:
    """Tell whether this process may mount a file system that other processes do not see."""
    if sys.platform != "linux" or not shutil.which("unshare"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = [*IN_FOUR_KIBIBYTES, folder, "true"]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.mark.skipif(
    not can_mount(), reason="not tested, because no file system can be mounted here"
)
def test_on_a_full_disk_the_old_token_stays(store: PrivateFileStore, start: Starter) -> None:
    """If the new token does not fit, the error says so, and the old one stays."""
    store.path.parent.mkdir()

    full = start(PRELUDE + FULL_DISK, "full", *IN_FOUR_KIBIBYTES, str(store.path.parent))
    said, _ = full.communicate()

    assert said.splitlines() == [
        f"the file {store.path} cannot be written: No space left on device",
        "old",
        store.path.name,
    ]
    assert names_in(store.path.parent) == []  # it was written to another file


async def test_a_worker_finds_the_token_of_a_login_elsewhere(
    store: PrivateFileStore, start: Starter
) -> None:
    """A headless process uses the token of another process's login, without a restart."""
    source = SharedTokenSource(store)
    with pytest.raises(LoginRequiredError):
        await source.token()

    login = start(f"{PRELUDE}save(1)", "login")
    assert await asyncio.to_thread(login.wait) == 0

    assert text_of(await source.token()).startswith("login-1-")
