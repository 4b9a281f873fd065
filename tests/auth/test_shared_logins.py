"""How a login fails, how long it is not repeated, and one login for processes that share a file."""

import asyncio
import gc
import queue
import subprocess
import sys
import threading
import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import (
    AuthorizationDeniedError,
    ConfigurationError,
    ConnectionFailedError,
    GatewayError,
    LoginError,
    LoginTimeoutError,
)
from gateway_sdk._files import LockFile
from gateway_sdk.auth import PrivateFileStore, SharedTokenSource, Token, _shared_source
from gateway_sdk.auth._stores.store import dump
from gateway_sdk.auth.token import text_of
from gateway_sdk.outcome import Repeatability
from tests.support.logins import KEY, Clock, Person, Store, begin, leave, make_token, names
from tests.support.records import names_in
from tests.support.secrecy import CANARY, texts_of

DENIED = AuthorizationDeniedError("the authorization server refused the login")
DENIED.code, DENIED.description = "access_denied", "not on Sundays"
DENIED.uri = "https://login.test/help"


async def refusal(source: SharedTokenSource) -> GatewayError:
    with pytest.raises(GatewayError) as caught:
        await source.token()
    return caught.value


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (LookupError(CANARY), "the login failed: LookupError"),
        (TimeoutError(CANARY), "the login failed: TimeoutError"),
        (asyncio.CancelledError(CANARY), "the login failed: CancelledError"),
        (f"{CANARY}-text", "acquire must return a Token"),
        (make_token("old", expires_at=1e6), "the login returned a token that has already expired"),
    ],
)
async def test_a_login_without_a_usable_token_is_a_login_error(
    clock: Clock, answer: Any, told: str
) -> None:
    error = await refusal(SharedTokenSource(store := Store(), Person(answer)))
    assert (type(error), str(error), store.saves) == (LoginError, told, 0)
    assert CANARY not in texts_of(error)


@pytest.mark.parametrize("mistake", [DENIED, LoginTimeoutError("nobody came")])
async def test_each_caller_gets_its_own_error(mistake: LoginError) -> None:
    source = SharedTokenSource(Store(), person := Person(mistake))
    errors = await asyncio.gather(*(refusal(source) for _ in range(20)))
    assert person.asked == 1
    assert len({id(error) for error in [*errors, mistake]}) == 21
    for number, error in enumerate(errors):
        assert (type(error), vars(error)) == (type(mistake), vars(mistake))
        assert (error.args, str(error)) == (mistake.args, str(mistake))
        assert error.__suppress_context__
        error.of_call(f"call-{number}", Repeatability.READ, ())
    assert [error.operation for error in errors] == [f"call-{number}" for number in range(20)]
    assert mistake.operation is (await refusal(source)).operation is None


WRONG = ConfigurationError("pass paste=")  # it opened no window
OTHER = ConnectionFailedError("the broker is not there")
LATE = LoginTimeoutError("nobody came")
AGAIN = make_token("again")
TOLD = {
    str(LATE): "late",
    str(DENIED): "denied",
    str(WRONG): "wrong",
    str(OTHER): "other",
    "the gateway refuses the access tokens of the latest logins": "useless",
    "the gateway refused the access token: log in with `gateway login`": "none",
}


@pytest.mark.parametrize(
    ("answers", "hold", "steps"),
    [
        # A failed login is not repeated for a while.
        ([DENIED], 30, "denied +29.9 denied +0.2 2 !3"),
        ([OTHER], 30, "other +29.9 other +0.2 2"),
        ([DENIED, DENIED], 0, "denied denied 3"),
        ([WRONG, WRONG], 30, "wrong wrong 3"),
        # A rejected token is not taken from the store again; one of another process is.
        ([], 30, "=kept kept !1 =kept +1000000 !2 =newer !newer"),
        ([DENIED], 30, "denied =kept kept"),
        # Without a user each hold is twice as long, up to an hour; a success sets it back.
        ([LATE] * 2, 30, "late +29.9 late +0.2 late +59.9 late +0.2 3"),
        ([LATE, LATE, AGAIN, LATE], 30, "late +30.1 late +60.1 again !late +29.9 late +0.2 5"),
        ([LATE] * 4, 1000, "late +1000.1 late +2000.1 late +3599 late +1.1 late +3600.1 5"),
        ([LATE] * 3, 7200, "late +7201 late +7199 late +2 late +7201 4"),
        ([LATE] * 3, 0, "late late late 4"),
        # A gateway that refuses each token costs two logins; a server may issue the same again.
        ([], 30, "1 !2 !useless useless +30.1 3"),
        ([AGAIN, AGAIN], 30, "again !again again"),
        # Without a user: a refused token is tried again after 1 s, 2 s and so on, up to the hold.
        (None, 30, "kept !none +0.9 none +0.2 kept !none +1.9 none +0.2 kept !none +3.9 none"),
        (None, 3, "kept !none +1.1 kept !none +2.1 kept !none +2.9 none +0.2 kept !none +3.1 kept"),
        # Refusals of calls that were in flight together do not prolong it; a success ends it.
        (None, 30, "kept" + " !none +0.0009" * 1000 + " +0.11 kept"),
        (None, 30, "kept" + " !none * kept" * 5 + " !none none +1 kept"),
        (None, 0, "kept !kept"),
    ],
)
async def test_it_is_asked_again_after_a_while(
    clock: Clock, answers: list[Any] | None, hold: float, steps: str
) -> None:
    """A step is time that passes, or what a caller gets, after ! for rejecting the last token.

    A star is a call that succeeds with the last token; =name a token that another process saves.
    """
    store = Store(make_token("kept") if answers is None else None)
    acquire = None if answers is None else Person(*answers)
    source = SharedTokenSource(store, acquire, hold=hold)
    last: Any = None
    for number, step in enumerate(steps.split()):
        if step[0] == "+":
            clock.now += float(step)
        elif step[0] == "=":
            await store.save(make_token(step[1:]))
        elif step == "*":
            source.note_success(make_token("other"))
            source.note_success(last)
        else:
            try:
                last = await source.token(last if step[0] == "!" else None)
                got = text_of(last).removeprefix(f"{CANARY}-")
            except GatewayError as error:
                got = TOLD[str(error)]
            assert (number, got) == (number, step.lstrip("!"))


async def test_a_held_failure_holds_nothing_of_the_login(clock: Clock) -> None:
    """The kept error holds no frame of the login, whose variables are secret."""

    class Held:
        pass

    async def acquire() -> Token:
        held = Held()
        gone.append(weakref.ref(held))
        raise LoginError("no")

    gone: list[weakref.ref[Held]] = []
    source = SharedTokenSource(Store(), acquire)
    for _ in range(2):
        await refusal(source)
    gc.collect()
    (held,) = gone
    assert held() is None


async def test_a_failure_without_callers_is_raised_to_the_next_ones(clock: Clock) -> None:
    """The hold begins when it failed."""
    mistake = LoginError("nobody came")
    source = SharedTokenSource(Store(), person := Person(mistake))
    await leave(await begin(source, person))
    clock.now += 60
    person.may_finish.set()
    await asyncio.wait([source._renewal.start()])
    clock.now += 29
    ends = await asyncio.gather(*(refusal(source) for _ in range(100)))
    assert {(type(end), str(end)) for end in ends} == {(LoginError, "nobody came")}
    assert person.asked == 1


@pytest.mark.parametrize("was_refused", [False, True])
async def test_a_login_that_is_ended_says_nothing_about_the_next(
    clock: Clock, was_refused: bool
) -> None:
    """It brings back no old failure, and does not count as useless."""
    source = SharedTokenSource(Store(), person := Person())
    if was_refused:
        caller = await begin(source, person, await source.token())
    else:
        person = Person(LoginError("no"))
        source = SharedTokenSource(Store(), person)
        await refusal(source)
        clock.now += 31
        caller = await begin(source, person)
    await source.aclose()
    assert person.done == person.asked  # its port, if any, is closed
    await asyncio.gather(caller, return_exceptions=True)
    person.may_finish.set()
    assert await names(source, 1) == {"3"}


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


def test_real_processes_open_one_login_and_do_not_wait_for_a_killed_one(tmp_path: Path) -> None:
    """One of four opens a login; when it is killed, another one does, and all get its token.

    They leave only the token behind.
    """
    said: queue.Queue[tuple[subprocess.Popen[str], str]] = queue.Queue()

    def read(process: "subprocess.Popen[str]") -> None:
        for line in process.stdout or ():
            said.put((process, line.strip()))

    with ExitStack() as stack:
        command = [sys.executable, "-c", PROCESS, str(tmp_path / "tokens")]
        command += [KEY.authorization_url, KEY.client_id, KEY.gateway]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
        processes = [stack.enter_context(subprocess.Popen(command, **pipes)) for _ in range(4)]
        for process in processes:
            reader = threading.Thread(target=read, args=(process,))
            reader.start()
            stack.callback(reader.join)
            stack.callback(process.kill)
        started = [said.get(timeout=60) for _ in range(5)]
        assert sorted(line for _, line in started) == ["asked", *["starts"] * 4]
        ((first, _),) = [one for one in started if one[1] == "asked"]
        first.kill()
        second, line = said.get(timeout=60)
        assert (line, second is first) == ("asked", False)
        assert second.stdin is not None
        second.stdin.write("from-the-second\n")
        second.stdin.flush()
        ends = [said.get(timeout=60) for _ in range(3)]
    assert [line for _, line in ends] == ["from-the-second"] * 3
    assert {one.pid for one, _ in ends} == {one.pid for one in processes} - {first.pid}
    assert said.empty()
    assert names_in(tmp_path / "tokens") == [f"{KEY.digest}.json"]


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_shared_source, "_POLL", 0.001)


def lock_of(store: PrivateFileStore) -> LockFile:
    store.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return LockFile(store.path.with_suffix(".lock"))


async def test_after_a_failed_or_cancelled_login_the_next_source_asks(
    store: PrivateFileStore,
) -> None:
    """However a login ends, its lock is given back."""
    person = Person(LoginError("no"))
    with pytest.raises(LoginError, match="no"):
        await SharedTokenSource(store, person).token()
    ended = SharedTokenSource(store, person)
    caller = await begin(ended, person)
    await ended.aclose()
    await asyncio.gather(caller, return_exceptions=True)
    person.may_finish.set()
    assert await names(SharedTokenSource(store, person), 1) == {"3"}


async def test_who_waits_for_a_login_gets_its_token(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that waits takes the token as soon as it is saved, before the lock is free."""
    waits, acquire = asyncio.Event(), LockFile.acquire

    def acquire_and_tell(lock: LockFile) -> bool:
        waits.set()
        return acquire(lock)

    lock = lock_of(store)
    assert lock.acquire()
    monkeypatch.setattr(LockFile, "acquire", acquire_and_tell)
    waiting = asyncio.create_task(SharedTokenSource(store, person := Person()).token())
    await waits.wait()
    await store.save(token := make_token("theirs"))
    assert await waiting == token
    assert person.asked == 0
    lock.release()


async def test_a_token_that_comes_with_the_lock_is_taken(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have logged in after the store was read, and be gone."""
    acquire, token = LockFile.acquire, make_token("theirs")

    def acquire_after_them(lock: LockFile) -> bool:
        store._write(dump(token, KEY))
        return acquire(lock)

    monkeypatch.setattr(LockFile, "acquire", acquire_after_them)
    assert await SharedTokenSource(store, Person()).token() == token


async def test_a_stuck_holder_is_given_up(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock is waited for as long as a login may take; then the source logs in without it."""
    monkeypatch.setattr(_shared_source, "DEFAULT_LOGIN_TIMEOUT", 0.05)
    lock = lock_of(store)
    assert lock.acquire()
    assert await names(SharedTokenSource(store, Person()), 1) == {"1"}
    assert not lock_of(store).acquire()
    lock.release()


async def test_a_login_takes_place_where_files_have_no_locks(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:

    def no_locks(lock: LockFile) -> bool:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(LockFile, "acquire", no_locks)
    assert await names(SharedTokenSource(store, Person()), 1) == {"1"}


def test_event_loops_of_one_source_open_one_login(tmp_path: Path) -> None:
    """The second one finds the lock taken, although it is its own source that has it."""
    asked, has_looked, got_it = queue.SimpleQueue[None](), threading.Event(), threading.Event()

    class Watched(PrivateFileStore):
        looks = 0

        async def load(self) -> Token | None:
            if threading.current_thread() is second:
                self.looks += 1
                if self.looks > 2:  # before the login, and while it waits for the lock
                    has_looked.set()
            return await super().load()

        async def save(self, token: Token) -> None:
            await super().save(token)
            await asyncio.to_thread(got_it.wait, 30)  # others find it while this goes on

    async def acquire() -> Token:
        asked.put(None)
        if threading.current_thread() is first:
            second.start()
            await asyncio.to_thread(has_looked.wait, 30)
        return make_token("once")

    def run() -> None:
        async def get() -> None:
            got.append(await source.token())
            if threading.current_thread() is second:
                got_it.set()
            await asyncio.to_thread(got_it.wait, 30)

        asyncio.run(get())

    got: list[Token] = []
    store = Watched(KEY, tmp_path)
    source = SharedTokenSource(store, acquire)
    first, second = threading.Thread(target=run), threading.Thread(target=run)
    first.start()
    first.join()
    second.join()

    assert (len(got), len(set(map(text_of, got))), asked.qsize()) == (2, 1, 1)
    lock = lock_of(store)
    assert lock.acquire()
    lock.release()
