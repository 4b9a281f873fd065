"""The private file: who may read it, what it refuses, and what is left when something fails."""

import asyncio
import errno
import json
import os
import pickle
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import TokenStoreError, _files
from gateway_sdk.auth import PrivateFileStore, SharedTokenSource, Token
from gateway_sdk.auth.token import text_of
from tests.support.logins import KEY, Person, make_token
from tests.support.records import GOOD, names_in
from tests.support.secrecy import CANARY, texts_of

ONLY_ROOT = pytest.mark.skipif(
    os.name == "posix" and os.getuid() != 0,
    reason="not tested, because only root may give files away",
)
posix = pytest.mark.posix
Use = Callable[[PrivateFileStore], Awaitable[object]]
NEW = make_token("new")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


async def error_of(use: Awaitable[object]) -> str:
    with pytest.raises(TokenStoreError) as caught:
        await use
    assert CANARY not in texts_of(caught.value)
    return str(caught.value)


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@posix
@pytest.mark.usefixtures("no_umask")
async def test_other_users_can_never_read_it(
    tmp_path: Path, store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each created folder has mode 0700, and the file has 0600 while it is written, too."""
    before, real, modes = mode_of(tmp_path), os.fsync, list[int]()

    def fsync(descriptor: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    await store.save(make_token("kept"))
    assert modes == [0o600]
    folders = (store.path, tmp_path / "state" / "tokens", tmp_path / "state", tmp_path)
    assert [mode_of(path) for path in folders] == [0o600, 0o700, 0o700, before]


@posix
async def test_a_token_is_not_written_where_others_could_read_it(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems, such as network shares, have one mode for all files."""
    monkeypatch.setattr(os, "fstat", lambda _: os.stat_result((stat.S_IFREG | 0o755, *range(9))))
    monkeypatch.setattr(os, "fsync", None)  # which follows the writing
    told = f"in the folder {store.path.parent}, other users could read the token"
    assert (await error_of(store.save(NEW))).startswith(told)
    assert names_in(store.path.parent) == []


async def test_no_more_than_a_record_is_read(store: PrivateFileStore) -> None:
    """A file that became very large is not read into memory, even if its start is valid."""
    await store.save(make_token("kept"))
    store.path.write_bytes(json.dumps({**GOOD, "more": "x" * 2**20}).encode())
    assert "has no valid token" in await error_of(store.load())
    with store.path.open("wb") as file:
        file.truncate(2**32)  # a sparse file, which needs no space
    assert "has no valid token" in await error_of(store.load())


def test_a_store_holds_no_secret_and_does_no_io(tmp_path: Path) -> None:
    store = PrivateFileStore(KEY, tmp_path / "state")
    copied = pickle.loads(pickle.dumps(store))  # noqa: S301 - ours
    assert repr(copied) == repr(store) == f"<PrivateFileStore {store.path}>"
    assert (copied.key, copied.path) == (store.key, store.path)
    assert names_in(tmp_path) == []


async def test_a_system_without_file_modes_is_supported(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows, the folders of a profile are private already, and os.getuid is missing."""
    monkeypatch.setattr(_files, "_WINDOWS", True)
    monkeypatch.delattr(os, "getuid", raising=False)
    await store.save(token := make_token("kept"))
    store.path.chmod(0o644)
    assert await store.load() == token
    store.path.unlink()
    store.path.mkdir()
    told = {"posix": "is not an ordinary file", "nt": "cannot be read: Permission denied"}
    assert told[os.name] in await error_of(store.load())


@pytest.mark.parametrize("times", [1, 99, 100])
@pytest.mark.parametrize(
    ("place", "name", "use"),
    [
        (os, "open", lambda store: store.load()),
        (Path, "replace", lambda store: store.save(make_token("new"))),
        (Path, "unlink", lambda store: store.delete()),
        (Path, "unlink", lambda store: with_draft(store).delete()),
    ],
)
async def test_windows_is_asked_again_while_another_process_has_the_file_open(
    store: PrivateFileStore,
    monkeypatch: pytest.MonkeyPatch,
    place: Any,
    name: str,
    use: Use,
    times: int,
) -> None:
    """For a second, whatever is done with it, or with a draft that somebody who was killed left."""
    await store.save(make_token("kept"))
    pauses: list[float] = []
    monkeypatch.setattr(_files, "_WINDOWS", True)
    monkeypatch.setattr(time, "sleep", pauses.append)
    real, refused = getattr(place, name), iter([True] * times)

    def busy(*args: Any, **options: Any) -> Any:
        if next(refused, False):
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(*args, **options)

    monkeypatch.setattr(place, name, busy)
    if times == 100:
        with pytest.raises(TokenStoreError, match="Permission denied"):
            await use(store)
    else:
        await use(store)
    assert pauses == [0.01] * min(times, 99)


def with_draft(store: PrivateFileStore) -> PrivateFileStore:
    store.path.with_name(f".{store.path.name}.killed").touch()
    return store


def give_away(path: Path) -> None:
    os.chown(path, 12345, -1)


def another(make: Callable[[Path], object]) -> Callable[[Path], None]:

    def spoil(path: Path) -> None:
        path.rename(path.with_name("elsewhere"))
        make(path)

    return spoil


LINKS = "cannot be read: Too many levels of symbolic links"
PUBLIC = "is accessible to other users (mode 0{:o}): its token may be known; log in again"
WRITABLE = "can be written by others"
FOLDER = another(Path.mkdir)


@posix
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (another(lambda path: path.symlink_to("elsewhere")), LINKS),
        (another(lambda path: path.symlink_to("nowhere")), LINKS),
        # One that has no writer.
        (another(getattr(os, "mkfifo", Path.mkdir)), "is not an ordinary file"),
        (FOLDER, "is not an ordinary file"),
        *((partial(Path.chmod, mode=mode), PUBLIC.format(mode)) for mode in (0o644, 0o640, 0o602)),
        pytest.param(give_away, "belongs to another user", marks=ONLY_ROOT),
    ],
)
async def test_a_file_that_others_may_have_made_or_read_is_refused(
    store: PrivateFileStore, spoil: Callable[[Path], None], told: str
) -> None:
    """It is not read, not followed and does not block; a new token replaces it.

    A login replaces what others could read, and does not touch what may be an attacker's.
    """
    await store.save(make_token("kept"))
    descriptors = len(names_in(Path("/dev/fd")))
    spoil(store.path)
    text = await error_of(store.load())
    assert str(store.path) in text
    assert told in text
    assert len(names_in(Path("/dev/fd"))) == descriptors
    logging_in = SharedTokenSource(store, Person()).token()
    if told.startswith("is accessible"):
        assert await logging_in == await store.load()
    else:
        await error_of(logging_in)

    elsewhere = store.path.with_name("elsewhere")
    before = elsewhere.read_bytes() if elsewhere.exists() else b""
    if spoil is FOLDER:
        assert "cannot be written: Is a directory" in await error_of(store.save(NEW))
        assert "cannot be removed" in await error_of(store.delete())
        assert names_in(store.path.parent) == [store.path.name, "elsewhere"]
        return
    await store.save(NEW)
    assert await store.load() == NEW
    assert mode_of(store.path) == 0o600
    assert (elsewhere.read_bytes() if elsewhere.exists() else b"") == before
    assert not store.path.with_name("nowhere").exists()


@posix
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        *((partial(Path.chmod, mode=mode), WRITABLE) for mode in (0o770, 0o707, 0o1777, 0o720)),
        pytest.param(give_away, "belongs to another user", marks=ONLY_ROOT),
        *((partial(Path.chmod, mode=mode), None) for mode in (0o700, 0o755)),
    ],
)
async def test_a_folder_that_others_can_write_is_refused(
    store: PrivateFileStore, spoil: Callable[[Path], None], told: str | None
) -> None:
    """Others could have put an old token there, or could put back what is deleted."""
    await store.save(make_token("kept"))
    folder, before = store.path.parent, store.path.read_bytes()
    spoil(folder)
    mode = mode_of(folder)
    for use in (store.load, partial(store.save, NEW), store.delete) if told else ():
        assert f"the folder {folder} {told}" in await error_of(use())
    assert (names_in(folder), store.path.read_bytes()) == ([store.path.name], before)
    if not told:
        await store.save(NEW)
        assert await store.load() == NEW
    assert mode_of(folder) == mode


async def test_a_folder_that_another_process_makes_meanwhile_is_used(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.save(make_token("first"))
    monkeypatch.setattr(Path, "exists", lambda _: False)
    await store.save(token := make_token("second"))
    assert await store.load() == token


@pytest.mark.parametrize(("owner", "step"), [(os, "open"), (os, "fsync"), (Path, "replace")])
async def test_the_old_token_stays_if_writing_fails(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch, owner: object, step: str
) -> None:
    """Each step may fail: the error gives the reason, and no draft is left."""

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    await store.save(old := make_token("old"))
    with monkeypatch.context() as broken:
        broken.setattr(owner, step, fail)
        assert "cannot be written: No space left on device" in await error_of(store.save(NEW))
    assert await store.load() == old
    assert names_in(store.path.parent) == [store.path.name]


@pytest.mark.parametrize("logouts", [2, pytest.param(100, marks=posix)])
async def test_a_draft_that_a_logout_removes_is_written_again(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch, logouts: int
) -> None:
    """But not for ever."""
    real, left = os.fsync, [None] * logouts

    def fsync(descriptor: int) -> None:
        real(descriptor)
        if left:
            left.pop()
            store._remove()  # as another process does

    await store.save(make_token("old"))
    monkeypatch.setattr(os, "fsync", fsync)
    if logouts == 100:
        assert "cannot be written: No such file or directory" in await error_of(store.save(NEW))
    else:
        await store.save(NEW)
        assert await store.load() == NEW
    assert names_in(store.path.parent) == [store.path.name][logouts // 100 :]


async def test_drafts_of_killed_processes_are_removed(store: PrivateFileStore) -> None:
    """They hold tokens. Saving spares those of the last minute, whose process may still write."""
    await store.save(make_token("first"))
    young, old = drafts = [store.path.with_name(f".{store.path.name}.{age}") for age in (30, 90)]
    other = store.path.with_name(".other.json.90")
    for path, age in zip([*drafts, other], (30, 90, 90), strict=True):
        path.write_bytes(b"draft")
        os.utime(path, (0, time.time() - age))
    await store.save(make_token("second"))
    assert names_in(store.path.parent) == sorted([young.name, other.name, store.path.name])
    assert not old.exists()
    await store.delete()
    assert names_in(store.path.parent) == [other.name]


PRELUDE = """
import asyncio, os, signal, sys
from pathlib import Path
from gateway_sdk.auth import PrivateFileStore, Token, TokenKey

name, folder, *key = sys.argv[1:]
store = PrivateFileStore(TokenKey(*key), folder)

def save(number):
    asyncio.run(store.save(Token(f"{name}-{number}-" + "x" * 5000, obtained_at=number)))
"""
SAVES = 30
WRITER = f"{PRELUDE}\nfor number in range({SAVES}): save(number)"
DIES = """
def die(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

def replace_and_die(path, target):
    os.replace(path, target)
    die()

"""
DEATHS = {
    "before the draft is there": "os.open = die",
    "while the draft is written": "os.fsync = die",
    "before the draft takes the file's place": "Path.replace = die",
    "after that": "Path.replace = replace_and_die",
}


def start(store: PrivateFileStore, code: str, name: str) -> subprocess.Popen[bytes]:
    key = (KEY.authorization_url, KEY.client_id, KEY.gateway)
    return subprocess.Popen([sys.executable, "-c", code, name, str(store.path.parent), *key])


async def kept(store: PrivateFileStore) -> Token:
    token = await store.load()
    assert token is not None
    return token


async def test_processes_that_save_at_once_never_break_the_file(store: PrivateFileStore) -> None:
    """While two processes write, a third one reads only whole tokens; no draft is left."""
    await store.save(make_token("kept"))
    read: set[str] = set()
    with start(store, WRITER, "one") as one, start(store, WRITER, "two") as two:
        while one.poll() is None or two.poll() is None:
            read.add(text_of(await kept(store)))
    assert (one.returncode, two.returncode) == (0, 0)
    assert len(read) > 1
    for text in read - {f"{CANARY}-kept"}:
        name, number, rest = text.split("-")
        assert (name in ("one", "two"), rest) == (True, "x" * 5000)
        assert int(number) in range(SAVES)
    assert (await kept(store)).obtained_at == SAVES - 1
    assert names_in(store.path.parent) == [store.path.name]


@posix
@pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)
async def test_a_writer_that_is_killed_leaves_the_old_token_or_the_new(
    store: PrivateFileStore, death: str
) -> None:
    """At each step, the file that is left is whole, and the next writer works."""
    await store.save(old := make_token("old"))
    with start(store, f"{PRELUDE}{DIES}{death}\nsave(7)", "new") as writer:
        assert await asyncio.to_thread(writer.wait) == -signal.SIGKILL
    token = await kept(store)
    assert (token.obtained_at == 7) if death.endswith("and_die") else (token == old)
    await store.save(newer := make_token("newer"))
    assert await store.load() == newer
