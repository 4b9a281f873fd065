import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from gateway_sdk import (
    AuthorizationDeniedError,
    ConfigurationError,
    DeadlineExceededError,
    ForbiddenError,
    GatewaySession,
    LoginError,
    LoginRequiredError,
    Outcome,
    SessionStateError,
    TokenRejectedError,
    UnauthorizedError,
)
from gateway_sdk.auth import MemoryStore, SharedTokenSource, Token, TokenKey
from tests.support.calls import CALLS
from tests.support.deadlines import pass_deadlines
from tests.support.logins import KEY, Clock, Person, Store, make_token
from tests.support.scripted import ScriptedEngine, scripted
from tests.support.secrecy import CANARY, logged, texts_of

OK = httpx.Response(200, json={})
EMPTY_LIST = httpx.Response(200, json=[])
REFUSED = httpx.Response(401)


@pytest.fixture(autouse=True)
def _nothing_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Search the log records of all libraries for tokens."""
    caplog.set_level(logging.DEBUG)
    yield
    assert CANARY not in logged(caplog.get_records("call"))


def sent(engine: ScriptedEngine) -> list[str]:
    """Return the names of the tokens of all requests."""
    return [
        request.headers["Authorization"].removeprefix(f"Bearer {CANARY}-")
        for request in engine.requests
    ]


def good(operation: str) -> httpx.Response:
    return EMPTY_LIST if operation == "list_countries" else OK


async def test_a_source_with_its_own_method_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token at hand is sent without a coroutine, but not past the method of a subclass."""

    class Other(SharedTokenSource):
        async def token(self, rejected: object = None) -> Token:
            await super().token(rejected)
            return make_token("other")

    source = Other(Store(make_token("kept"), KEY))
    gateway, engine, _ = scripted(monkeypatch, OK, OK, access_token=source)
    for _ in range(2):
        await gateway.wallet.trading_order_history("c-1")

    assert sent(engine) == ["other", "other"]


@pytest.mark.parametrize("operation", CALLS)
async def test_an_expired_token_is_renewed_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """No request is sent with a token that is known to have expired."""
    store = Store(make_token("old", expires_at=time.time() - 1), KEY)
    source = SharedTokenSource(store, Person(make_token("new")))
    gateway, engine, _ = scripted(monkeypatch, good(operation), access_token=source)

    await CALLS[operation](gateway)

    assert sent(engine) == ["new"]


@pytest.mark.parametrize("operation", CALLS)
async def test_a_refused_token_is_renewed_and_the_call_repeated(
    monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """After a 401 the same body is sent again with a new token, which is stored."""
    store = Store(make_token("old"), KEY)
    source = SharedTokenSource(store, Person(make_token("new")))
    gateway, engine, waits = scripted(monkeypatch, REFUSED, good(operation), access_token=source)

    await CALLS[operation](gateway)

    assert sent(engine) == ["old", "new"]
    assert engine.bodies[0] == engine.bodies[1]
    assert await store.load() == await source.token()
    assert waits == []


async def test_a_stream_is_sent_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that cannot be sent again is not, and no login takes place."""

    async def stream() -> AsyncIterator[bytes]:
        yield b"once"

    person = Person()
    source = SharedTokenSource(Store(make_token("old")), person)
    gateway, engine, _ = scripted(monkeypatch, REFUSED, access_token=source)

    with pytest.raises(UnauthorizedError) as caught:
        await gateway.aml.upload_document(stream())

    assert engine.bodies == [b"once"]
    assert caught.value.outcome is Outcome.REFUSED
    assert person.asked == 0


async def test_a_new_token_that_is_refused_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two 401s are a TokenRejectedError, after one login; the next call opens a login again."""
    person = Person()
    source = SharedTokenSource(Store(make_token("old")), person)
    gateway, engine, _ = scripted(monkeypatch, REFUSED, REFUSED, OK, access_token=source)

    with pytest.raises(TokenRejectedError) as caught:
        await CALLS["create_customer"](gateway)
    await CALLS["create_customer"](gateway)

    assert sent(engine) == ["old", "1", "2"]
    assert caught.value.outcome is Outcome.REFUSED
    assert CANARY not in texts_of(caught.value)


async def test_a_forbidden_call_renews_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 403 means that the token is valid: it is kept, and no login takes place."""
    person = Person()
    source = SharedTokenSource(Store(make_token("good")), person)
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(403), access_token=source)

    for _ in range(2):
        with pytest.raises(ForbiddenError):
            await CALLS["order_history"](gateway)

    assert sent(engine) == ["good", "good"]
    assert person.asked == 0


@pytest.mark.parametrize("expires_at", [None, 1_000_000.0])
async def test_without_a_usable_token_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, expires_at: float | None
) -> None:
    """In a process without a user, a call ends before it is sent and names the command."""
    store = Store(make_token("old", expires_at=expires_at) if expires_at else None)
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=SharedTokenSource(store))

    with pytest.raises(LoginRequiredError, match="`gateway login`") as caught:
        await CALLS["create_customer"](gateway)

    assert engine.requests == []
    assert caught.value.outcome is Outcome.NOT_SENT
    assert caught.value.operation == "create_customer"
    assert CANARY not in texts_of(caught.value)


async def test_a_refused_token_without_another_one_ends_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a process without a user, a 401 names the command, and the next call is not sent."""
    source = SharedTokenSource(Store(make_token("old")))
    gateway, engine, _ = scripted(monkeypatch, REFUSED, access_token=source)

    outcomes = []
    for _ in range(2):
        with pytest.raises(LoginRequiredError, match="refused the access token") as caught:
            await CALLS["create_customer"](gateway)
        outcomes.append((caught.value.outcome, len(caught.value.attempts)))

    assert sent(engine) == ["old"]
    assert outcomes == [(Outcome.REFUSED, 1), (Outcome.NOT_SENT, 0)]


async def test_a_failed_login_ends_each_call_that_waits_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each call has its own error, with its operation and the server's texts."""
    denied = AuthorizationDeniedError("no", code="access_denied", description="not on Sundays")
    source = SharedTokenSource(Store(), person := Person(denied))
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=source)

    errors = await asyncio.gather(
        *(call(gateway) for call in CALLS.values()), return_exceptions=True
    )

    assert engine.requests == []
    assert person.asked == 1
    operations = []
    for error in errors:
        assert isinstance(error, AuthorizationDeniedError)
        assert error.description == "not on Sundays"
        operations.append(error.operation)
    assert operations == list(CALLS)
    assert denied.operation is None


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
    """A source for one gateway is refused by a session for another one, and by its views."""
    mine = SharedTokenSource(MemoryStore(KEY))
    other = SharedTokenSource(MemoryStore(TokenKey.of("https://login.test", "client-1", base_url)))
    gateway, _, _ = scripted(monkeypatch, OK, access_token=mine)

    with pytest.raises(ConfigurationError, match="own gateway only"):
        GatewaySession(base_url, access_token=mine, allow_insecure_http=True)
    with pytest.raises(ConfigurationError, match="own gateway only"):
        gateway.with_options(access_token=other)
    with pytest.raises(ConfigurationError, match="own gateway only"):
        scripted(monkeypatch, OK, access_token=other)


@pytest.mark.parametrize(
    "base_url",
    ["https://gateway.test", "HTTPS://GATEWAY.TEST:443", "https://gateway.test/below/it/"],
)
def test_the_same_gateway_may_be_written_in_other_ways(base_url: str) -> None:
    """Upper case, the default port and a path do not make another gateway."""
    key = TokenKey.of("https://login.test/authorize", "client-1", base_url)

    assert key == KEY
    GatewaySession(base_url, access_token=SharedTokenSource(MemoryStore(KEY)))


async def test_a_deadline_ends_the_wait_for_a_login_but_not_the_login(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call whose deadline passes leaves the login to the other calls."""
    person = Person()
    person.may_finish.clear()
    source = SharedTokenSource(Store(), person)
    hasty, _, _ = scripted(monkeypatch, OK, access_token=source)
    patient, engine, _ = scripted(monkeypatch, OK, access_token=source)
    calls = [asyncio.create_task(CALLS["create_customer"](who)) for who in (hasty, patient)]
    await person.started.wait()

    pass_deadlines(hasty)
    with pytest.raises(DeadlineExceededError) as caught:
        await calls[0]
    assert person.done == 0
    person.may_finish.set()
    await calls[1]

    assert caught.value.outcome is Outcome.NOT_SENT
    assert sent(engine) == ["1"]
    assert person.asked == 1


async def test_calls_with_short_deadlines_one_after_another_open_one_login(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A login stays open after its last call has ended: the next call finds it, or its token."""
    person = Person()
    person.may_finish.clear()
    source = SharedTokenSource(Store(), person)
    for _ in range(5):
        gateway, engine, _ = scripted(monkeypatch, OK, access_token=source)
        call = asyncio.create_task(CALLS["create_customer"](gateway))
        await person.started.wait()
        await asyncio.sleep(0)
        pass_deadlines(gateway)
        with pytest.raises(DeadlineExceededError):
            await call
        await gateway.aclose()
    assert (person.asked, person.done) == (1, 0)
    person.may_finish.set()
    await person.ended.wait()
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=source)

    await CALLS["create_customer"](gateway)

    assert sent(engine) == ["1"]
    assert person.asked == 1


async def test_a_login_belongs_to_its_source_and_not_to_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Closing a session ends its calls, but not the login: the next session uses it."""
    person = Person()
    person.may_finish.clear()
    source = SharedTokenSource(Store(), person)
    gateway, _, _ = scripted(monkeypatch, OK, access_token=source, drain=0)
    call = asyncio.create_task(CALLS["create_customer"](gateway))
    await person.started.wait()

    await gateway.aclose()
    with pytest.raises(SessionStateError):
        await call
    assert person.done == 0
    await source.aclose()

    assert person.done == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_calls_use_a_token_that_works_while_the_next_one_is_obtained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With 25 s left, calls are sent at once with the old token, and one login takes place."""
    person = Person()
    person.may_finish.clear()
    store = Store(make_token("old", expires_at=time.time() + 25), KEY)
    source = SharedTokenSource(store, person)
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=source)

    for _ in range(3):
        await CALLS["create_customer"](gateway)
    await person.started.wait()
    await CALLS["create_customer"](gateway)
    person.may_finish.set()
    await person.ended.wait()
    await source._renewal.join()
    await CALLS["create_customer"](gateway)

    assert sent(engine) == ["old"] * 4 + ["1"]
    assert person.asked == 1


async def test_a_gateway_that_refuses_all_tokens_says_so_to_every_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand calls cost two logins and end with the same error; another call sends nothing."""
    person = Person()
    source = SharedTokenSource(Store(), person)
    gateway, engine, _ = scripted(monkeypatch, *[REFUSED] * 4000, access_token=source)

    errors = await asyncio.gather(
        *(CALLS["create_customer"](gateway) for _ in range(1000)), return_exceptions=True
    )
    requests = len(engine.requests)
    with pytest.raises(TokenRejectedError, match="of the latest logins") as late:
        await CALLS["create_customer"](gateway)

    assert {type(error) for error in errors} == {TokenRejectedError}
    assert person.asked == 2
    assert len(engine.requests) == requests
    assert (late.value.outcome, late.value.status) == (Outcome.NOT_SENT, 401)


async def test_a_caller_whose_token_is_known_to_be_useless_is_told_with_its_own_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A 401 that causes no login ends the call with the body of that 401."""
    source = SharedTokenSource(Store(), Person())
    gateway, _, _ = scripted(
        monkeypatch, REFUSED, httpx.Response(401, json={"reason": "mine"}), access_token=source
    )
    source.reject(await source.token())
    await source.token()

    with pytest.raises(TokenRejectedError) as caught:
        await CALLS["create_customer"](gateway)

    assert caught.value.outcome is Outcome.REFUSED
    assert len(caught.value.attempts) == 1


async def test_a_wrong_401_stops_no_headless_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply to a call that was in flight with the same token ends the pause after a 401."""
    kept = make_token("kept")
    source = SharedTokenSource(Store(kept, KEY), clock=Clock())
    late, here = asyncio.Event(), asyncio.Event()

    class Mistaken(ScriptedEngine):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            here.set()
            if len(self.requests) == 1:
                await late.wait()
            return response

    engine = Mistaken([OK, REFUSED, OK])
    gateway = GatewaySession(
        "https://gateway.test", access_token=source, tenant_id="acme", transport=engine
    )
    async with gateway:
        slow = asyncio.create_task(CALLS["create_customer"](gateway))
        await here.wait()
        for _ in range(2):
            with pytest.raises(LoginRequiredError):
                await CALLS["create_customer"](gateway)
        late.set()
        await slow
        await CALLS["create_customer"](gateway)

    assert sent(engine) == ["kept"] * 3


async def test_a_login_that_is_cancelled_from_inside_does_not_cancel_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call ends as cancelled only if it is cancelled itself."""
    source = SharedTokenSource(Store(), Person(asyncio.CancelledError()))
    gateway, _, _ = scripted(monkeypatch, OK, access_token=source)

    with pytest.raises(LoginError, match="was cancelled"):
        await CALLS["create_customer"](gateway)
