"""Several processes that share a token file and need a login at the same time."""

import asyncio
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway_sdk import LoginError
from gateway_sdk._lock_file import LockFile
from gateway_sdk.auth import (
    MemoryStore,
    PrivateFileStore,
    SharedTokenSource,
    _login_coordination as login_coordination,
)
from gateway_sdk.auth.token import text_of
from tests.support.file_store import names_in
from tests.support.logins import KEY, Person, make_token
from tests.support.secrecy import CANARY

PROCESS = """
import asyncio, sys
from gateway_sdk.auth import PrivateFileStore, SharedTokenSource, Token, TokenKey

folder, *key = sys.argv[1:]

async def acquire():
    print("asked", flush=True)
    answer = await asyncio.to_thread(sys.stdin.readline)
    return Token(answer.strip())

async def main():
    source = SharedTokenSource(PrivateFileStore(TokenKey(*key), folder), acquire)
    print("starts", flush=True)
    print((await source.token()).value.get_secret_value(), flush=True)

asyncio.run(main())
"""


class Processes:
    """Real processes that need a login, and what they say.

    Attributes:
        said: A process and a line of its output, in the order of their coming.
    """

    def __init__(self, folder: Path, count: int) -> None:
        key = (KEY.authorization_url, KEY.client_id, KEY.gateway)
        self.said: queue.Queue[tuple[subprocess.Popen[str], str]] = queue.Queue()
        self.all = [
            subprocess.Popen(
                [sys.executable, "-c", PROCESS, str(folder), *key],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                encoding="utf-8",
            )
            for _ in range(count)
        ]
        self._readers = [threading.Thread(target=self._read, args=(one,)) for one in self.all]
        for reader in self._readers:
            reader.start()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        for line in process.stdout or ():
            self.said.put((process, line.strip()))

    def end(self) -> None:
        """Kill the processes that still run."""
        for process in self.all:
            process.kill()
            process.wait()
        for reader in self._readers:
            reader.join()
        for process in self.all:
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()


def test_real_processes_open_one_login_and_do_not_wait_for_a_killed_one(tmp_path: Path) -> None:
    """One of four opens a login; when it is killed, another one does, and all get its token."""
    processes = Processes(tmp_path / "tokens", 4)
    try:
        started = [processes.said.get(timeout=60) for _ in range(5)]
        assert sorted(line for _, line in started) == ["asked", *["starts"] * 4]
        ((first, _),) = [one for one in started if one[1] == "asked"]
        first.kill()
        second, line = processes.said.get(timeout=60)
        assert (line, second is first) == ("asked", False)
        assert second.stdin is not None
        second.stdin.write("from-the-second\n")
        second.stdin.flush()
        ends = [processes.said.get(timeout=60) for _ in range(3)]
    finally:
        processes.end()

    assert [line for _, line in ends] == ["from-the-second"] * 3
    assert {one.pid for one, _ in ends} == {one.pid for one in processes.all} - {first.pid}
    assert processes.said.empty()


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PrivateFileStore:
    """Provide a store in a folder that does not exist yet."""
    monkeypatch.setattr(login_coordination, "_POLL", 0.001)
    return PrivateFileStore(KEY, tmp_path / "tokens")


def lock_of(store: PrivateFileStore) -> LockFile:
    store.path.parent.mkdir(mode=0o700, exist_ok=True)
    return LockFile(store.path.with_suffix(".lock"))


async def test_of_four_sources_one_opens_a_login(store: PrivateFileStore) -> None:
    """Four sources that share a token file open one login, and leave only the token behind."""
    person = Person()
    sources = [SharedTokenSource(PrivateFileStore(KEY, store.path.parent), person) for _ in "1234"]

    tokens = await asyncio.gather(*(source.token() for source in sources))

    assert {text_of(token) for token in tokens} == {f"{CANARY}-1"}
    assert person.asked == 1
    assert names_in(store.path.parent) == [store.path.name]


async def test_after_a_failed_or_cancelled_login_the_next_source_asks(
    store: PrivateFileStore,
) -> None:
    """However a login ends, its lock is given back."""
    person = Person(LoginError("no"))
    with pytest.raises(LoginError, match="no"):
        await SharedTokenSource(store, person).token()
    person.may_finish.clear()
    person.started.clear()
    ended = SharedTokenSource(store, person)
    caller = asyncio.create_task(ended.token())
    await person.started.wait()
    await ended.aclose()
    await asyncio.gather(caller, return_exceptions=True)
    person.may_finish.set()

    assert text_of(await SharedTokenSource(store, person).token()).startswith(CANARY)
    assert person.asked == 3


async def test_who_waits_for_a_login_gets_its_token(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that waits takes the token as soon as it is saved, before the lock is free."""
    lock, waits = lock_of(store), asyncio.Event()
    assert lock.acquire()
    acquire = LockFile.acquire

    def acquire_and_tell(lock: LockFile) -> bool:
        waits.set()
        return acquire(lock)

    monkeypatch.setattr(LockFile, "acquire", acquire_and_tell)
    person = Person()
    waiting = asyncio.create_task(SharedTokenSource(store, person).token())
    await waits.wait()
    await store.save(token := make_token("theirs"))

    assert await waiting == token
    assert person.asked == 0
    lock.release()


async def test_a_stuck_holder_is_given_up(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock is waited for as long as a login may take; then the source logs in without it."""
    monkeypatch.setattr(login_coordination, "DEFAULT_LOGIN_TIMEOUT", 0.05)
    lock, person = lock_of(store), Person()
    assert lock.acquire()

    assert text_of(await SharedTokenSource(store, person).token()) == f"{CANARY}-1"

    assert not lock_of(store).acquire()
    lock.release()


async def test_a_login_takes_place_where_files_have_no_locks(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system without locks costs the coordination, not the login."""

    def no_locks(lock: LockFile) -> bool:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(LockFile, "acquire", no_locks)

    assert text_of(await SharedTokenSource(store, Person()).token()) == f"{CANARY}-1"


async def test_other_stores_are_not_locked() -> None:
    """Two sources with a store that is no file both log in."""
    store, people = MemoryStore(KEY), (Person(), Person())
    for person in people:
        person.may_finish.clear()
    asking = [asyncio.create_task(SharedTokenSource(store, one).token()) for one in people]
    for person in people:
        await person.started.wait()
        person.may_finish.set()

    await asyncio.gather(*asking)
