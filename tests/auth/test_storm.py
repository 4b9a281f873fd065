import asyncio
import gc
import subprocess
import sys
import warnings
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest

from gateway_sdk import GatewaySession, LoginError
from gateway_sdk.auth import (
    ImplicitFlow,
    MemoryStore,
    SharedTokenSource,
    Token,
    login,
)
from gateway_sdk.auth.token import CachedToken, text_of
from tests.auth.traces import release_ports
from tests.support.calls import CALLS
from tests.support.logins import Clock, Person, Store, make_token
from tests.support.scripted import ScriptedEngine
from tests.support.secrecy import CANARY

FLOW = ImplicitFlow("https://login.test/authorize", "client-1")


class Crowd(ScriptedEngine):
    """Holds requests with one token until a number of them has come, and refuses them all."""

    def __init__(self, token: Token, size: int) -> None:
        super().__init__([httpx.Response(200, json={})])
        self._refused = f"Bearer {text_of(token)}"
        self._all_here = asyncio.Barrier(size)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Reply 401 to all at the same time, and 200 to requests with another token."""
        response = await super().handle_async_request(request)
        if request.headers["Authorization"] != self._refused:
            return response
        await self._all_here.wait()
        return httpx.Response(401)


class Listening:
    """A real login, which listens for a response that never comes."""

    def __init__(self, redirect_uri: str = "http://127.0.0.1:0/callback") -> None:
        self.redirect_uri = redirect_uri
        self.shown: asyncio.Queue[str] = asyncio.Queue()
        self.begun = 0

    async def __call__(self) -> Token:
        self.begun += 1
        return await login(
            FLOW, redirect_uri=self.redirect_uri, browser=False, show=self.shown.put_nowait
        )

    async def port(self) -> int:
        """Return the port of the next login, as soon as it listens."""
        while not (address := await self.shown.get()).startswith("http:"):
            pass
        return urlsplit(address).port or 0


async def is_open(port: int) -> bool:
    """Tell whether a program listens at a port of this machine."""
    with suppress(ConnectionRefusedError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        await writer.wait_closed()
        return True
    return False


async def test_a_thousand_callers_share_one_login() -> None:
    """For any number of callers, one login takes place, and all get its token."""
    store, person = Store(), Person()
    source = SharedTokenSource(store, person)

    tokens = await asyncio.gather(*(source.token() for _ in range(1000)))

    assert {id(token) for token in tokens} == {id(source.ready())}
    assert (person.asked, store.loads, store.saves) == (1, 1, 1)


async def test_a_thousand_rejections_cost_one_login() -> None:
    """For any number of reports of the same 401, one login takes place."""
    person = Person()
    source = SharedTokenSource(Store(), person)
    old = await source.token()

    tokens = await asyncio.gather(*(source.token(rejected=old) for _ in range(1000)))

    assert {text_of(token) for token in tokens} == {f"{CANARY}-2"}
    assert person.asked == 2


async def test_a_thousand_calls_with_a_401_at_once_are_all_repeated() -> None:
    """Each call of a session is sent again with the one new token, and succeeds."""
    old, person = make_token("old"), Person()
    source = SharedTokenSource(Store(old), person)
    engine = Crowd(old, 1000)
    gateway = GatewaySession(
        "https://gateway.test", access_token=source, tenant_id="acme", transport=engine
    )

    async with gateway:
        replies = await asyncio.gather(
            *(CALLS["create_customer"](gateway) for _ in range(1000)),
        )

    assert len(replies) == 1000
    sent = Counter(request.headers["Authorization"] for request in engine.requests)
    assert sent == {f"Bearer {CANARY}-old": 1000, f"Bearer {CANARY}-1": 1000}
    assert person.asked == 1


async def test_the_first_caller_of_a_login_may_be_cancelled() -> None:
    """The login goes on for the waiting callers when its first caller is cancelled."""
    person = Person()
    person.may_finish.clear()
    source = SharedTokenSource(Store(), person)
    first, *others = [asyncio.create_task(source.token()) for _ in range(100)]
    await person.started.wait()

    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    person.may_finish.set()

    assert {text_of(token) for token in await asyncio.gather(*others)} == {f"{CANARY}-1"}
    assert first.cancelled()
    assert (person.asked, person.done) == (1, 1)


async def test_the_time_out_of_one_caller_does_not_affect_others() -> None:
    """A caller that times out gets its error, and the login goes on for the others."""
    person = Person()
    person.may_finish.clear()
    source = SharedTokenSource(Store(), person)
    others = [asyncio.create_task(source.token()) for _ in range(100)]

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await source.token()
    person.may_finish.set()

    assert {text_of(token) for token in await asyncio.gather(*others)} == {f"{CANARY}-1"}
    assert person.asked == 1


async def test_a_login_without_callers_stays_open() -> None:
    """When all callers are cancelled, a real login goes on for later ones."""
    listening = Listening()
    source = SharedTokenSource(MemoryStore(), listening)
    callers = [asyncio.create_task(source.token()) for _ in range(100)]
    port = await listening.port()

    for _ in range(3):
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        assert all(caller.cancelled() for caller in callers)
        assert await is_open(port)
        callers = [asyncio.create_task(source.token()) for _ in range(100)]
        await asyncio.sleep(0)
    await source.aclose()
    ends = await asyncio.gather(*callers, return_exceptions=True)

    assert {(type(end), str(end)) for end in ends} == {(LoginError, "the login was ended")}
    assert listening.begun == 1
    release_ports()
    assert not await is_open(port)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_login_without_callers_ends_with_its_event_loop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """At the end of asyncio.run it ends without a message, and its port is closed."""

    async def leave() -> int:
        listening = current[0] = Listening()
        caller = asyncio.create_task(source.token())
        port = await listening.port()
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        assert await is_open(port)
        return port

    async def acquire() -> Token:
        return await current[0]()

    current = [Listening()]
    source = SharedTokenSource(MemoryStore(), acquire)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ports = [asyncio.run(leave()) for _ in range(2)]
        gc.collect()
    release_ports()

    assert [asyncio.run(is_open(port)) for port in ports] == [False, False]
    assert caplog.records == []


def test_a_login_without_callers_keeps_no_process_from_ending() -> None:
    """A program whose call has left its login ends at once, with nothing on standard error."""
    program = """
import asyncio
from gateway_sdk.auth import ImplicitFlow, MemoryStore, SharedTokenSource, login

async def main():
    flow = ImplicitFlow("https://login.test/authorize", "client-1")
    shown = asyncio.Event()
    source = SharedTokenSource(
        MemoryStore(), lambda: login(flow, browser=False, show=lambda line: shown.set())
    )
    call = asyncio.create_task(source.token())
    await shown.wait()
    call.cancel()
    await asyncio.wait([call])
    print("done")

asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        check=False,
        timeout=60,
        encoding="utf-8",
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


async def test_a_caller_during_the_end_of_a_login_gets_an_error() -> None:
    """The next login can use the same port, because the one before has closed it."""
    listening = Listening()
    source = SharedTokenSource(MemoryStore(), listening)
    first = asyncio.create_task(source.token())
    port = await listening.port()
    listening.redirect_uri = f"http://127.0.0.1:{port}/callback"

    closing = asyncio.create_task(source.aclose())
    await asyncio.sleep(0)
    with pytest.raises(LoginError, match="was ended"):
        await source.token()
    await closing
    newcomer = asyncio.create_task(source.token())

    assert await listening.port() == port
    await source.aclose()
    await asyncio.gather(first, newcomer, return_exceptions=True)


async def test_closing_a_source_without_a_login_does_nothing() -> None:
    """It can be closed at any time and used again."""
    source = SharedTokenSource(MemoryStore(), Person())
    await source.aclose()
    token = await source.token()
    await source.aclose()

    assert await source.token() is token


async def test_a_failure_without_callers_is_raised_to_the_next_one() -> None:
    """A login without callers that failed is not repeated within the hold."""
    person = Person(LoginError("nobody came"))
    person.may_finish.clear()
    clock = Clock()
    source = SharedTokenSource(Store(), person, clock=clock)
    caller = asyncio.create_task(source.token())
    await person.started.wait()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    person.may_finish.set()
    await asyncio.wait([source._renewal.start()])

    clock.now += 29
    ends = await asyncio.gather(*(source.token() for _ in range(100)), return_exceptions=True)
    assert {(type(end), str(end)) for end in ends} == {(LoginError, "nobody came")}
    assert person.asked == 1
    clock.now += 2

    assert text_of(await source.token()) == f"{CANARY}-2"


async def test_a_login_that_is_ended_does_not_bring_back_an_old_failure() -> None:
    """A failure whose hold has passed stays forgotten, though a later login was ended."""
    clock, person = Clock(), Person(LoginError("no"))
    source = SharedTokenSource(Store(), person, clock=clock)
    with pytest.raises(LoginError, match=r"^no$"):
        await source.token()
    clock.now += 31
    person.may_finish.clear()
    person.started.clear()
    caller = asyncio.create_task(source.token())
    await person.started.wait()
    await source.aclose()
    await asyncio.gather(caller, return_exceptions=True)
    person.may_finish.set()

    assert text_of(await source.token()) == f"{CANARY}-3"


async def test_a_login_that_is_ended_does_not_count_as_useless() -> None:
    """One token was refused, and the login after it was ended: the next login takes place."""
    person = Person()
    source = SharedTokenSource(Store(), person, clock=Clock())
    first = await source.token()
    person.may_finish.clear()
    person.started.clear()
    caller = asyncio.create_task(source.token(rejected=first))
    await person.started.wait()
    await source.aclose()
    await asyncio.gather(caller, return_exceptions=True)
    person.may_finish.set()

    assert text_of(await source.token()) == f"{CANARY}-3"


async def test_a_token_that_comes_as_the_login_is_ended_is_not_lost() -> None:
    """A token that comes at the last moment serves all callers, also if the store fails."""

    async def acquire() -> Token:
        person.started.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return await person()

    async def save(token: Token) -> None:
        raise LookupError

    person, store = Person(), MemoryStore()
    store.save = save  # type: ignore[method-assign]
    source = SharedTokenSource(store, acquire)
    callers = [asyncio.create_task(source.token()) for _ in range(10)]
    await person.started.wait()
    await source.aclose()

    tokens = await asyncio.gather(*callers, source.token())

    assert {text_of(token) for token in tokens} == {f"{CANARY}-1"}
    assert person.asked == 1


@pytest.mark.parametrize("turns", range(7))
async def test_a_joiner_may_reject_what_is_just_being_loaded(turns: int) -> None:
    """At any moment of a 401 for the token in the store, no waiting caller gets that token."""
    kept, person = make_token("kept"), Person()
    source = SharedTokenSource(Store(kept), person)
    starter = asyncio.create_task(source.token())
    for _ in range(turns):
        await asyncio.sleep(0)
    was_served = starter.done()

    joined = await source.token(rejected=kept)

    assert text_of(joined) == f"{CANARY}-1"
    assert await starter is (kept if was_served else joined)
    assert person.asked == 1


async def test_a_token_from_another_event_loop_is_taken() -> None:
    """A renewal that is about to begin stops if another event loop has just finished one."""
    store, person = Store(), Person()
    source = SharedTokenSource(store, person)
    asking = asyncio.create_task(source.token())
    await asyncio.sleep(0)

    other = make_token("other")
    source._cached = CachedToken(other, 30, 0, 0)

    assert await asking is other
    assert (store.loads, person.asked) == (0, 0)


def test_a_source_serves_one_event_loop_after_the_other() -> None:
    """The token of the first event loop is used in the next one, and renewed there."""
    asked = 0

    async def acquire() -> Token:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return make_token(asked)

    async def storm(rejected: Token | None) -> set[Token]:
        return set(await asyncio.gather(*(source.token(rejected) for _ in range(100))))

    source = SharedTokenSource(MemoryStore(), acquire)
    (first,) = asyncio.run(storm(None))

    assert asyncio.run(storm(None)) == {first}
    (second,) = asyncio.run(storm(first))

    assert (text_of(first), text_of(second)) == (f"{CANARY}-1", f"{CANARY}-2")
    assert asked == 2
