"""A shared source as a session's access token: what is sent, and how calls end."""

import asyncio
import time

import httpx
import pytest

from gateway_sdk import (
    ConfigurationError,
    DeadlineExceededError,
    GatewaySession,
    LoginRequiredError,
    Outcome,
    SessionStateError,
    TokenRejectedError,
)
from gateway_sdk.auth import MemoryStore, SharedTokenSource, Token, TokenKey
from tests.support.calls import CALLS, pass_deadlines
from tests.support.logins import KEY, Clock, Person, Store, make_token
from tests.support.scripted import ScriptedEngine, scripted
from tests.support.secrecy import CANARY, texts_of

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
    ("kept", "told", "outcomes"),
    [
        (None, "there is no access token", [Outcome.NOT_SENT]),
        (make_token("old", expires_at=1e6), "expired at", [Outcome.NOT_SENT]),
        (make_token("old"), "refused the access token", [Outcome.REFUSED, Outcome.NOT_SENT]),
    ],
)
async def test_without_a_user_a_call_names_the_command(
    monkeypatch: pytest.MonkeyPatch, kept: Token | None, told: str, outcomes: list[Outcome]
) -> None:
    """Before anything is sent, or after the 401; then the next call is not sent."""
    source = SharedTokenSource(Store(kept))
    gateway, engine, _ = scripted(monkeypatch, REFUSED, access_token=source)
    for outcome in outcomes:
        with pytest.raises(LoginRequiredError, match=f"{told}.*`gateway login`") as caught:
            await CALLS["create_customer"](gateway)
        assert (caught.value.outcome, caught.value.operation) == (outcome, "create_customer")
        assert len(caught.value.attempts) == (outcome is Outcome.REFUSED)
        assert CANARY not in texts_of(caught.value)
    assert len(engine.requests) == len(outcomes) - 1


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


async def test_a_login_outlives_the_calls_and_sessions_that_wait_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deadlines and closed sessions end their own calls only; the next call finds the login."""
    source = SharedTokenSource(Store(), person := Person())
    person.may_finish.clear()
    patient, engine, _ = scripted(monkeypatch, OK, access_token=source)
    waiting = asyncio.create_task(CALLS["create_customer"](patient))
    await person.started.wait()
    for _ in range(5):
        gateway, _, _ = scripted(monkeypatch, OK, access_token=source, drain=0)
        hasty = asyncio.create_task(CALLS["create_customer"](gateway))
        await asyncio.sleep(0)
        pass_deadlines(gateway)
        with pytest.raises(DeadlineExceededError) as caught:
            await hasty
        assert caught.value.outcome is Outcome.NOT_SENT
        closed = asyncio.create_task(CALLS["create_customer"](gateway))
        await asyncio.sleep(0)
        await gateway.aclose()
        with pytest.raises(SessionStateError):
            await closed
    assert (person.asked, person.done) == (1, 0)
    person.may_finish.set()
    await waiting
    await CALLS["create_customer"](patient)
    assert (sent(engine), person.asked) == (["1", "1"], 1)


async def test_a_gateway_that_refuses_all_tokens_says_so_to_every_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand calls cost two logins and end with the same error; another call sends nothing."""
    source = SharedTokenSource(Store(), person := Person())
    gateway, engine, _ = scripted(monkeypatch, *[REFUSED] * 4000, access_token=source)
    errors = await asyncio.gather(
        *(CALLS["create_customer"](gateway) for _ in range(1000)), return_exceptions=True
    )
    requests = len(engine.requests)
    with pytest.raises(TokenRejectedError, match="of the latest logins") as late:
        await CALLS["create_customer"](gateway)
    assert {type(error) for error in errors} == {TokenRejectedError}
    assert (person.asked, len(engine.requests)) == (2, requests)
    assert (late.value.outcome, late.value.status) == (Outcome.NOT_SENT, 401)


async def test_a_401_that_causes_no_login_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is told with its own reply."""
    source = SharedTokenSource(Store(), Person())
    gateway, _, _ = scripted(
        monkeypatch, httpx.Response(401, json={"message": "mine"}), access_token=source
    )
    source.reject(await source.token())
    await source.token()
    with pytest.raises(TokenRejectedError) as caught:
        await CALLS["create_customer"](gateway)
    assert (caught.value.outcome, len(caught.value.attempts)) == (Outcome.REFUSED, 1)


async def test_a_wrong_401_stops_no_headless_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply to a call that was in flight with the same token ends the pause after a 401."""
    source = SharedTokenSource(Store(make_token("kept"), KEY), monotonic=Clock())
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
