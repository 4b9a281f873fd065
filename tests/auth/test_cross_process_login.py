"""Several processes that need a login at the same time."""

import asyncio
import gc
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from gateway_sdk import LoginError, TokenStoreError
from gateway_sdk.auth import (
    KeyringStore,
    MemoryStore,
    PrivateFileStore,
    RedisStore,
    SharedTokenSource,
    Token,
    TokenStore,
    _login_coordination as login_coordination,
)
from gateway_sdk.auth.stores import _redis as redis_store
from gateway_sdk.auth.stores._base import ClaimingTokenStore, LoginClaim
from gateway_sdk.auth.stores._file import FileClaim
from gateway_sdk.auth.token import text_of
from tests.support import virtual_time
from tests.support.logins import KEY, Clock, Person, Store, make_token
from tests.support.redis_server import NEEDS_REDIS, RedisServer
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


@pytest.fixture(params=["memory", "file", "keyring", pytest.param("redis", marks=NEEDS_REDIS)])
def opens(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], ClaimingTokenStore]]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(login_coordination, "_POLL", 0.001)
    match request.param:
        case "memory":
            store = MemoryStore(KEY)
            yield lambda: store
        case "file":
            yield lambda: PrivateFileStore(KEY, tmp_path / "tokens")
        case "keyring":
            keyring = KeyringStore(KEY)
            keyring.load, keyring.save = (  # type: ignore[method-assign]
                (memory := MemoryStore()).load,
                memory.save,
            )
            yield lambda: keyring
        case _:
            server = RedisServer(tmp_path)
            server.start()
            yield lambda: RedisStore(server.url, KEY)
            server.kill()


async def test_of_four_processes_one_opens_a_login(opens: Callable[[], TokenStore]) -> None:
    """Four sources that share a store and need a login at the same time open one login."""
    person = Person()
    person.may_finish.clear()
    sources = [SharedTokenSource(opens(), person) for _ in range(4)]
    waiting = Waiting(sources)
    asking = [asyncio.create_task(source.token()) for source in sources]
    await person.started.wait()
    await waiting.others_wait()
    person.may_finish.set()

    tokens = await asyncio.gather(*asking)

    assert {text_of(token) for token in tokens} == {f"{CANARY}-1"}
    assert person.asked == 1


async def test_a_failure_is_reported_to_all_waiting_processes(
    opens: Callable[[], TokenStore],
) -> None:
    """A user who refused is not asked by the waiting processes; a new process may ask again."""
    person = Person(LoginError("no"), LoginError("no again"))
    for _ in range(2):
        person.may_finish.clear()
        person.started.clear()
        sources = [SharedTokenSource(opens(), person) for _ in range(4)]
        first = asyncio.create_task(sources[0].token())
        await person.started.wait()
        waiting = Waiting(sources[1:])
        others = [asyncio.create_task(source.token()) for source in sources[1:]]
        await waiting.all_wait()
        person.may_finish.set()
        ends = await asyncio.gather(first, *others, return_exceptions=True)

        assert [type(end) for end in ends] == [LoginError] * 4
        assert {str(end) for end in ends[1:]} == {
            "the login failed, in another process that asked its user"
        }
    assert person.asked == 2
    assert text_of(await SharedTokenSource(opens(), person).token()) == f"{CANARY}-3"


async def test_when_a_login_is_ended_the_next_process_asks(opens: Callable[[], TokenStore]) -> None:
    """If a process ends before its user has logged in, another one opens the login."""
    first, second = Person(), Person()
    first.may_finish.clear()
    sources = SharedTokenSource(opens(), first), SharedTokenSource(opens(), second)
    given_up = asyncio.create_task(sources[0].token())
    await first.started.wait()
    waiting = Waiting(sources[1:])
    other = asyncio.create_task(sources[1].token())
    await waiting.all_wait()
    assert second.asked == 0

    await sources[0].aclose()

    assert text_of(await other) == f"{CANARY}-1"
    assert second.asked == 1
    await asyncio.gather(given_up, return_exceptions=True)


class Waiting:
    def __init__(self, sources: "tuple[SharedTokenSource, ...] | list[SharedTokenSource]") -> None:
        self._events = [asyncio.Event() for _ in sources]
        for source, event in zip(sources, self._events, strict=True):
            self._watch(source, event)

    def _watch(self, source: SharedTokenSource, event: asyncio.Event) -> None:
        claim_login = source._access.claim_login

        async def claim() -> LoginClaim | None:
            claim = await claim_login()
            if claim is not None and not claim.granted:
                event.set()
            return claim

        source._access.claim_login = claim  # type: ignore[method-assign]

    async def others_wait(self) -> None:
        """Wait until each source but one has seen that another one logs in."""
        waits = [asyncio.create_task(event.wait()) for event in self._events]
        for ended in islice(asyncio.as_completed(waits), len(waits) - 1):
            await ended
        for wait in waits:
            wait.cancel()

    async def all_wait(self) -> None:
        """Wait until each source has seen that another one logs in."""
        for event in self._events:
            await event.wait()


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


async def test_a_store_without_claims_asks_at_once() -> None:
    """A store of the user does not need `claim_login`."""

    class Plain:
        key = None

        async def load(self) -> Token | None:
            return None

        async def save(self, token: Token) -> None:
            saved.append(token)

        async def delete(self) -> None: ...

    saved: list[Token] = []
    token = await SharedTokenSource(Plain(), Person()).token()

    assert saved == [token]


async def test_a_claim_that_is_waited_for_can_be_cancelled() -> None:
    """The task that asks for it ends; only what the store itself cancels counts as a failure."""
    asked = asyncio.Event()

    class Waiting(Store):
        async def claim_login(self) -> LoginClaim:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError("cancelled before")

    access = login_coordination.StoreAccess(Waiting(), Clock())
    claiming = asyncio.create_task(access.claim_login())
    await asked.wait()
    claiming.cancel()

    with pytest.raises(asyncio.CancelledError):
        await claiming


@pytest.mark.parametrize("error", [TokenStoreError("down"), asyncio.CancelledError()])
@pytest.mark.parametrize("granted_first", [True, False])
async def test_failing_claims_do_not_stop_a_login(
    granted_first: bool, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a claim cannot be made or ended, the login takes place without it."""

    class Failing(Store):
        async def claim_login(self) -> LoginClaim:
            self.claims += 1
            if self.claims > 1 or not granted_first:
                raise error
            claim = await super().claim_login()
            claim.end = claim.keep = fail  # type: ignore[method-assign]
            return claim

        claims = 0

    async def fail(**_: bool) -> None:
        raise LookupError

    source = SharedTokenSource(Failing(), Person())

    assert text_of(await source.token()) == f"{CANARY}-1"


async def test_a_claim_that_fails_while_one_waits_ends_the_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that can no longer see whether another one logs in opens a login itself."""
    monkeypatch.setattr(login_coordination, "_POLL", 0)
    store = Store()
    await store.claim_login()
    claim_login, claims = store.claim_login, 0

    async def claim() -> LoginClaim:
        nonlocal claims
        claims += 1
        if claims > 2:
            raise LookupError
        return await claim_login()

    store.claim_login = claim  # type: ignore[method-assign]

    assert text_of(await SharedTokenSource(store, Person()).token()) == f"{CANARY}-1"


async def test_a_store_that_fails_while_one_waits_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error of the store does not end the wait for the other process."""
    monkeypatch.setattr(login_coordination, "_POLL", 0)
    store, person = Store(), Person()
    await store.claim_login()
    load, loads = store.load, 0

    async def fail_once() -> Token | None:
        nonlocal loads
        loads += 1
        if loads == 2:
            raise TokenStoreError("down")
        if loads == 3:
            await store.save(make_token("theirs"))
        return await load()

    store.load = fail_once  # type: ignore[method-assign]

    assert text_of(await SharedTokenSource(store, person).token()) == f"{CANARY}-theirs"
    assert person.asked == 0


def test_a_claim_is_kept_while_the_login_lasts() -> None:
    """It is renewed every ten seconds, even after a failed renewal, until the login ends."""
    kept: list[float] = []

    async def scenario() -> None:
        async def keep() -> None:
            kept.append(virtual_time.now())
            if len(kept) == 1:
                raise LookupError

        async def acquire() -> Token:
            await asyncio.sleep(35)
            return make_token(1)

        class Kept(MemoryStore):
            async def claim_login(self) -> LoginClaim:
                claim = await super().claim_login()
                claim.keep = keep  # type: ignore[method-assign]
                return claim

        await SharedTokenSource(Kept(), acquire, monotonic=virtual_time.now).token()
        await asyncio.sleep(100)

    virtual_time.run(scenario())

    assert kept == [10, 20, 30]


def test_an_event_loop_that_was_closed_in_mid_login_blocks_no_other() -> None:
    """A claim in memory ends with its event loop, also if the loop was closed early."""
    store = MemoryStore()
    loop = asyncio.new_event_loop()
    claim = loop.run_until_complete(store.claim_login())
    assert claim.granted
    assert not asyncio.run(store.claim_login()).granted

    loop.close()

    assert asyncio.run(store.claim_login()).granted


FORKED = """
import asyncio, os
from gateway_sdk.auth import MemoryStore

async def claim():
    return (await store.claim_login()).granted

store = MemoryStore()
with asyncio.Runner() as runner:
    assert runner.run(claim())
    child = os.fork()
    if child == 0:
        os._exit(0 if asyncio.run(claim()) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not runner.run(claim())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_claim_in_memory_does_not_hold_in_a_forked_process() -> None:
    """No process would ever end that claim, and each call would wait until its deadline."""
    subprocess.run([sys.executable, "-c", FORKED], check=True, timeout=60)


async def test_a_mark_that_lapses_with_a_killed_process_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In Redis, the mark of an earlier failure can lapse: then a waiting process asks its user."""
    monkeypatch.setattr(login_coordination, "_POLL", 0)
    store, person = Store(), Person()
    store._claims.failure = "of a login some minutes ago"
    held = await store.claim_login()
    source = SharedTokenSource(store, person)
    waiting = Waiting([source])
    asking = asyncio.create_task(source.token())
    await waiting.all_wait()

    store._claims.failure = ""
    await held.end(failed=False)

    assert text_of(await asking) == f"{CANARY}-1"


def test_a_claim_of_a_file_that_is_dropped_is_given_back(tmp_path: Path) -> None:
    """A thread may have made it for a task that was cancelled in the meantime."""
    path = tmp_path / "lock"
    claim = FileClaim(path)
    assert not FileClaim(path).granted

    del claim
    gc.collect()

    assert FileClaim(path).granted


def test_a_forked_process_does_not_give_back_what_its_parent_has(tmp_path: Path) -> None:
    """A child process that drops its copy of a claim does not end the claim."""
    claim = FileClaim(tmp_path / "lock")
    claim._pid += 1  # as in a child process

    claim._descriptor, kept = os.dup(claim._descriptor), claim._descriptor
    claim._close()

    assert not FileClaim(tmp_path / "lock").granted
    os.close(kept)
    assert FileClaim(tmp_path / "lock").granted


async def test_a_file_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    """The error names the file; it is opened with mode 0600, and no link is followed."""
    store = PrivateFileStore(KEY, tmp_path / "tokens")
    await (await store.claim_login()).end(failed=True)
    lock = store.path.with_suffix(".lock")
    assert lock.stat().st_mode & 0o777 == 0o600
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(TokenStoreError, match=f"the file {lock} cannot be locked"):
        await store.claim_login()


async def test_a_claim_of_a_file_is_given_back_even_if_its_mark_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk, the claim still ends."""

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, os.strerror(28))

    claim = FileClaim(tmp_path / "lock")
    monkeypatch.setattr(os, "write", full)

    await claim.end(failed=True)

    assert FileClaim(tmp_path / "lock").granted


@NEEDS_REDIS
async def test_a_claim_in_redis_lapses_and_ends_no_other_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process blocks the others for 30 s; a late process ends no claim of others."""
    server = RedisServer(tmp_path)
    server.start()
    try:
        store = RedisStore(server.url, KEY)
        first = await store.claim_login()
        await first.keep()
        grants = [first.granted]
        async with store._connected() as redis:
            (name,) = await redis.keys()
            assert 0 < await redis.pttl(name) <= 30_000
            await redis.delete(name)  # as if its time had passed
        second = await store.claim_login()
        await first.end(failed=True)
        await first.keep()

        grants += [second.granted, first.granted, (await store.claim_login()).granted]
        assert grants == [True, True, False, False]
        assert redis_store._CLAIM_LIFE == "30000"
    finally:
        server.kill()


def test_a_wait_for_another_process_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """An operator can see why a process does not open a login."""
    caplog.set_level("INFO", "gateway_sdk.auth")

    async def scenario() -> None:
        store = Store()
        await store.claim_login()
        source = SharedTokenSource(store, Person(), clock=Clock(), monotonic=virtual_time.now)
        asking = asyncio.create_task(source.token())
        await asyncio.sleep(9.9)
        await store.save(make_token("theirs"))
        await asking
        assert virtual_time.now() == 10

    virtual_time.run(scenario())

    assert "waiting for the login of another process" in caplog.text
