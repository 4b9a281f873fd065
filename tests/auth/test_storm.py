"""One login for all callers and sessions, however many there are, and whoever leaves."""

import asyncio
import gc
import time
from contextlib import suppress
from typing import Any

import httpx
import pytest

from gateway_sdk import ConfigurationError, GatewaySession, LoginError, LoginRequiredError
from gateway_sdk.auth import MemoryStore, SharedTokenSource, Token, TokenKey
from gateway_sdk.auth.token import text_of
from tests.support.calls import CALLS
from tests.support.failing_steps import turns
from tests.support.logins import KEY, Clock, Person, Store, begin, leave, make_token, names
from tests.support.scripted import ScriptedEngine, scripted
from tests.support.secrecy import CANARY


async def test_a_thousand_callers_share_one_login() -> None:
    """Also a thousand that report the same 401."""
    source = SharedTokenSource(store := Store(), person := Person())
    assert await names(source, 1000) == {"1"}
    assert (person.asked, store.loads, store.saves) == (1, 1, 1)
    assert await names(source, 1000, rejected=source.ready()) == {"2"}
    assert person.asked == 2


@pytest.mark.parametrize("by_time_out", [False, True])
async def test_any_caller_of_a_login_may_leave(by_time_out: bool) -> None:
    """The login goes on when its callers are cancelled or time out, also without any."""
    source = SharedTokenSource(Store(), person := Person())
    first = await begin(source, person)
    if by_time_out:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await source.token()
    await leave(first)
    others = asyncio.create_task(names(source, 100))
    await asyncio.sleep(0)
    person.may_finish.set()
    assert await others == {"1"}
    assert (person.asked, person.done) == (1, 1)


@pytest.mark.parametrize("count", range(7))
async def test_a_joiner_may_reject_what_is_just_being_loaded(count: int) -> None:
    """At any moment of a 401 for the token in the store, no waiting caller gets that token."""
    source = SharedTokenSource(Store(kept := make_token("kept")), person := Person())
    starter = asyncio.create_task(source.token())
    await turns(count)
    was_served = starter.done()
    joined = await source.token(rejected=kept)
    assert text_of(joined) == f"{CANARY}-1"
    assert await starter is (kept if was_served else joined)
    assert person.asked == 1


def test_a_source_serves_one_event_loop_after_the_other() -> None:
    """The token of the first event loop is used in the next one, and renewed there."""
    source = SharedTokenSource(Store(), person := Person())
    assert asyncio.run(names(source, 100)) == asyncio.run(names(source, 100)) == {"1"}
    assert asyncio.run(names(source, 100, rejected=make_token(1))) == {"2"}
    assert person.asked == 2


async def test_an_error_without_callers_is_not_reported() -> None:
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
    source = SharedTokenSource(Store(), person := Person(LoginError("no")))
    await leave(await begin(source, person))
    person.may_finish.set()
    await asyncio.wait([source._renewal.start()])
    del source
    gc.collect()
    assert reports == []


async def test_callers_during_the_end_of_a_login_get_an_error() -> None:
    """When `aclose` returns, the login has ended: the next one can use its port."""

    async def acquire() -> Token:
        try:
            return await person()
        finally:
            await asyncio.sleep(0)  # while its port is closed
            ended.append(person.asked)

    ended: list[int] = []
    source = SharedTokenSource(MemoryStore(), acquire)
    person = Person()
    await source.aclose()  # at any time
    first = await begin(source, person)
    closing = asyncio.create_task(source.aclose())
    await asyncio.sleep(0)
    second = asyncio.create_task(source.token())
    await closing
    assert ended == [1]
    ends = await asyncio.gather(first, second, return_exceptions=True)
    assert {(type(end), str(end)) for end in ends} == {(LoginError, "the login was ended")}
    assert person.asked == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


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
    callers = asyncio.create_task(names(source, 10))
    await person.started.wait()
    await source.aclose()
    assert await callers == await names(source, 1) == {"1"}
    assert person.asked == 1


pytestmark = pytest.mark.usefixtures("discreet")

OK = httpx.Response(200, json={})
REFUSED = httpx.Response(401)


def sent(engine: ScriptedEngine) -> list[str]:
    return [
        request.headers["Authorization"].removeprefix(f"Bearer {CANARY}-")
        for request in engine.requests
    ]


async def test_a_source_with_its_own_method_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token at hand is sent without a coroutine, but not past the method of a subclass."""

    class Other(SharedTokenSource):
        async def token(self, rejected: object = None) -> Token:
            await super().token(rejected)
            return make_token("other")

    source = Other(Store(make_token("kept"), KEY))
    gateway, engine, _ = scripted(monkeypatch, OK, OK, access_token=source)
    for _ in range(2):
        await CALLS["create_customer"](gateway)
    assert sent(engine) == ["other", "other"]


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("is_expired", [True, False])
async def test_a_useless_token_is_renewed(
    monkeypatch: pytest.MonkeyPatch, operation: str, is_expired: bool
) -> None:
    """One that has expired is not sent; after a 401 the same body is sent again with a new one."""
    good = httpx.Response(200, json=[]) if operation == "list_countries" else OK
    ends, steps = (time.time() - 1, [good]) if is_expired else (None, [REFUSED, good])
    store = Store(make_token("old", expires_at=ends), KEY)
    source = SharedTokenSource(store, Person(make_token("new")))
    gateway, engine, waits = scripted(monkeypatch, *steps, access_token=source)
    await CALLS[operation](gateway)
    assert sent(engine) == (["new"] if is_expired else ["old", "new"])
    assert engine.bodies[0] == engine.bodies[-1]
    assert await store.load() == await source.token()
    assert waits == []


@pytest.mark.parametrize(
    "base_url",
    [
        "https://other.test",
        "https://gateway.test:8443",
        "http://gateway.test",
        "https://gateway.test.evil.test",
    ],
)
async def test_a_token_goes_to_its_own_gateway_only(
    monkeypatch: pytest.MonkeyPatch, base_url: str
) -> None:
    mine = SharedTokenSource(MemoryStore(KEY))
    other = SharedTokenSource(MemoryStore(TokenKey.of("https://login.test", "client-1", base_url)))
    gateway, _, _ = scripted(monkeypatch, OK, access_token=mine)
    for make in (
        lambda: GatewaySession(base_url, access_token=mine, allow_insecure_http=True),
        lambda: gateway.with_options(access_token=other),
        lambda: scripted(monkeypatch, OK, access_token=other),
    ):
        with pytest.raises(ConfigurationError, match="own gateway only"):
            make()


async def test_a_wrong_401_stops_no_headless_worker(clock: Clock) -> None:
    """A reply to a call that was in flight with the same token ends the pause after a 401."""
    source = SharedTokenSource(Store(make_token("kept"), KEY))
    late, here = asyncio.Event(), asyncio.Event()

    class Mistaken(ScriptedEngine):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            here.set()
            if len(self.requests) == 1:
                await late.wait()
            return response

    engine = Mistaken([OK, REFUSED, OK])
    async with GatewaySession(
        "https://gateway.test", access_token=source, tenant_id="acme", transport=engine
    ) as gateway:
        slow = asyncio.create_task(CALLS["create_customer"](gateway))
        await here.wait()
        for _ in range(2):
            with pytest.raises(LoginRequiredError):
                await CALLS["create_customer"](gateway)
        late.set()
        await slow
        await CALLS["create_customer"](gateway)
    assert sent(engine) == ["kept"] * 3
