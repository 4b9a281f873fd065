"""Access tokens: where they come from, what is refused, what happens after a 401."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from gateway_sdk import (
    Advice,
    AuthError,
    ConfigurationError,
    ConnectionFailedError,
    GatewayError,
    GatewaySession,
    Observer,
    Outcome,
    TokenRejectedError,
    UnauthorizedError,
)
from gateway_sdk.auth import MemoryStore, SharedTokenSource, Token
from tests.support.calls import CALLS
from tests.support.scripted import ScriptedEngine, scripted

OK = httpx.Response(200, json={})


class Renewing:
    """A token source that has another token each time one is rejected."""

    def __init__(self, *tokens: str | SecretStr) -> None:
        self.tokens = list(tokens)
        self.rejected: list[str] = []

    async def token(self, rejected: Any = None) -> str | SecretStr:
        if rejected is not None:
            self.rejected.append(rejected)
        if rejected == self.tokens[0] and len(self.tokens) > 1:
            self.tokens.pop(0)
        return self.tokens[0]


def sent_tokens(engine: ScriptedEngine) -> list[str]:
    return [request.headers["Authorization"] for request in engine.requests]


async def _coroutine_function() -> str:
    return "from-a-function"


async def _secret() -> SecretStr:
    return SecretStr("from-a-function")


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("abc.DEF-_~+/==", "Bearer abc.DEF-_~+/=="),
        (SecretStr("abc"), "Bearer abc"),
        (_coroutine_function, "Bearer from-a-function"),
        (_secret, "Bearer from-a-function"),
        (Renewing("first"), "Bearer first"),
        (Renewing(SecretStr("first")), "Bearer first"),
    ],
)
async def test_every_kind_of_source_is_sent(
    monkeypatch: pytest.MonkeyPatch, given: Any, sent: str
) -> None:
    """A token goes out as a bearer token, whatever it was given as."""
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=given)

    await CALLS["order_history"](gateway)

    assert sent_tokens(engine) == [sent]


@pytest.mark.parametrize("given", [None, 7, b"bytes", object(), Renewing, ["token"]])
def test_what_cannot_give_a_token_is_refused(given: Any) -> None:
    """A session is not made with something that is no source of tokens."""
    with pytest.raises(ConfigurationError, match=r"^access_token (must be a string|is a class)"):
        GatewaySession("https://gateway.test", access_token=given)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("CANARY\n", "strip"),
        (" CANARY", "strip"),
        ("CAN ARY", "has characters"),
        ("CAN\nARY", "has characters"),
        ("CANARY\x00", "has characters"),
        ("CANÄRY", "has characters"),
        ("=CANARY", "has characters"),
        ("Bearer CANARY", "begins with the word Bearer"),
    ],
)
async def test_what_no_bearer_token_can_be_is_refused(
    monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    """Such a text is refused when it is given and when a source returns it, and is not shown."""

    async def source() -> str:
        return text

    with pytest.raises(ConfigurationError, match=problem) as at_once:
        GatewaySession("https://gateway.test", access_token=SecretStr(text))
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=source)
    with pytest.raises(AuthError, match=problem) as later:
        await CALLS["order_history"](gateway)

    assert engine.requests == []
    assert later.value.outcome is Outcome.NOT_SENT
    for error in (at_once.value, later.value):
        assert "CAN" not in str(error)


async def _wrong_type() -> Any:
    return 7


async def _fails() -> str:
    raise LookupError("CANARY")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (_wrong_type, "something that is not a token"),
        (_fails, "failed: LookupError"),
        (lambda: "token", "make it async"),
    ],
)
async def test_a_source_that_fails_ends_the_call_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, source: Callable[[], Any], message: str
) -> None:
    """Whatever goes wrong in a source is an AuthError; the cause is kept, but not its text."""
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=source)

    with pytest.raises(AuthError, match=message) as caught:
        await CALLS["create_customer"](gateway)

    assert engine.requests == []
    assert "CANARY" not in str(caught.value)
    assert caught.value.advice is not Advice.CHECK


async def test_an_error_of_the_package_comes_through_a_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A source that raises an AuthError of its own is not wrapped in another one."""
    raised = AuthError("log in first")

    async def source() -> str:
        raise raised

    gateway, _, _ = scripted(monkeypatch, OK, access_token=source)
    with pytest.raises(AuthError) as caught:
        await CALLS["order_history"](gateway)

    assert str(caught.value) == "order_history: log in first"


async def test_an_error_that_calls_share_is_written_by_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A source with one refresh for all callers: each caller reads what became of its own call."""
    shared = AuthError("the refresh failed")
    asked = 0

    async def source() -> str:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise shared
        return "t"

    gateway, _, _ = scripted(monkeypatch, httpx.ReadError("cut"), access_token=source)
    with pytest.raises(GatewayError) as first:
        await CALLS["cancel_order"](gateway)  # executed; its reply is lost, then there is no token
    with pytest.raises(GatewayError) as second:
        await CALLS["spot_trading_available_balance"](gateway)

    assert (first.value.operation, first.value.outcome) == ("cancel_order", Outcome.UNKNOWN)
    assert len(first.value.attempts) == 1
    assert (second.value.operation, second.value.attempts) == ("spot_trading_available_balance", ())
    assert (shared.operation, shared.attempts) == (None, ())


@pytest.mark.parametrize("observers", [[], [Observer()]])
async def test_a_source_that_may_be_asked_again_is(
    monkeypatch: pytest.MonkeyPatch, observers: list[Observer]
) -> None:
    """Before any attempt: observers hear of no retry, because there is nothing to repeat."""
    tries: list[None] = []

    async def source() -> str:
        tries.append(None)
        raise ConnectionFailedError("no connection to the authorization server")

    gateway, engine, _ = scripted(monkeypatch, OK, access_token=source, observers=observers)
    with pytest.raises(ConnectionFailedError, match="authorization server"):
        await CALLS["order_history"](gateway)

    assert len(tries) == 3
    assert not engine.requests


async def test_a_rejected_token_is_renewed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a 401 the source is asked for another token, and the call is made again with it."""
    source = Renewing("old", "new")
    gateway, engine, waits = scripted(monkeypatch, httpx.Response(401), OK, access_token=source)

    await CALLS["create_customer"](gateway)

    assert sent_tokens(engine) == ["Bearer old", "Bearer new"]
    assert source.rejected == ["old"]
    assert waits == []


async def test_a_renewed_token_that_is_rejected_too_ends_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second 401 is a TokenRejectedError: an UnauthorizedError and an AuthError in one."""
    refusal = httpx.Response(401, json={"message": "no"})
    gateway, engine, _ = scripted(
        monkeypatch, refusal, access_token=Renewing("one", "two", "three")
    )

    with pytest.raises(TokenRejectedError) as caught:
        await CALLS["create_customer"](gateway)

    assert len(engine.requests) == 2
    assert isinstance(caught.value, UnauthorizedError)
    assert isinstance(caught.value, AuthError)
    assert caught.value.outcome is Outcome.REFUSED
    assert caught.value.payload is not None
    assert caught.value.payload.message == "no"


async def test_a_renewal_is_not_repeated_after_another_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One renewal per call: a 401 in a later attempt of it is final."""
    gateway, engine, _ = scripted(
        monkeypatch,
        httpx.Response(401),
        httpx.Response(503),
        httpx.Response(401),
        access_token=Renewing("one", "two", "three"),
    )

    with pytest.raises(TokenRejectedError) as caught:
        await CALLS["order_history"](gateway)

    assert [attempt.status for attempt in caught.value.attempts] == [401, 503, 401]
    assert sent_tokens(engine) == ["Bearer one", "Bearer two", "Bearer two"]


async def test_a_renewed_token_that_is_refused_later_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A 401 in a later attempt of the same call: the source has to know it for the next call."""
    source = Keeping()
    replies = (httpx.Response(status) for status in (401, 503, 401))
    gateway, _, _ = scripted(monkeypatch, *replies, access_token=source)

    with pytest.raises(TokenRejectedError):
        await CALLS["order_history"](gateway)

    assert source.rejected == ["token-0", "token-1"]


@pytest.mark.parametrize("source", ["static", SecretStr("static"), Renewing("static")])
async def test_a_token_that_cannot_be_renewed_is_unauthorized(
    monkeypatch: pytest.MonkeyPatch, source: Any
) -> None:
    """Without another token a 401 is an UnauthorizedError after one attempt."""
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(401), access_token=source)

    with pytest.raises(UnauthorizedError) as caught:
        await CALLS["order_history"](gateway)

    assert type(caught.value) is UnauthorizedError
    assert len(engine.requests) == 1


async def test_a_failing_renewal_keeps_the_outcome_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error of the source in mid-call says what the attempts before it did."""

    class Broken(Renewing):
        async def token(self, rejected: Any = None) -> str | SecretStr:
            if rejected:
                raise LookupError
            return "old"

    gateway, _, _ = scripted(monkeypatch, httpx.Response(401), access_token=Broken("old"))

    with pytest.raises(AuthError) as caught:
        await CALLS["create_customer"](gateway)

    assert caught.value.outcome is Outcome.REFUSED
    assert len(caught.value.attempts) == 1


async def test_a_forbidden_call_does_not_renew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 403 says that the token is good and the right is missing: no renewal."""
    source = Renewing("old", "new")
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(403), access_token=source)

    with pytest.raises(GatewayError):
        await CALLS["order_history"](gateway)

    assert source.rejected == []
    assert len(engine.requests) == 1


async def test_a_stream_that_cannot_be_sent_again_still_rejects_its_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody logs in for a call that is lost anyway; the next one has another token."""

    async def stream() -> Any:
        yield b"once"

    store = MemoryStore()
    await store.save(Token("old"))
    logins = iter(["new"])

    async def log_in() -> Token:
        return Token(next(logins))

    gateway, engine, _ = scripted(
        monkeypatch, httpx.Response(401), OK, access_token=SharedTokenSource(store, log_in)
    )

    with pytest.raises(UnauthorizedError):
        await gateway.aml.upload_document(stream())
    await gateway.aml.upload_document(stream())

    assert sent_tokens(engine) == ["Bearer old", "Bearer new"]


class Keeping:
    """A source of the user's own that keeps its token until it hears that it was rejected."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.rejected: list[str] = []
        self._failure = failure

    async def token(self, rejected: str | None = None) -> str:
        if rejected is not None:
            self.reject(rejected)
        return f"token-{len(set(self.rejected))}"

    def reject(self, token: str) -> None:
        self.rejected.append(token)
        if self._failure is not None:
            raise self._failure


async def _stream() -> AsyncIterator[bytes]:
    yield b"once"


async def test_a_source_hears_of_the_401_of_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next upload is sent with another token, and the one after that keeps it."""
    source = Keeping()
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(401), OK, access_token=source)

    with pytest.raises(UnauthorizedError):
        await gateway.aml.upload_document(_stream())
    for _ in range(2):
        await gateway.aml.upload_document(_stream())

    assert sent_tokens(engine) == ["Bearer token-0", "Bearer token-1", "Bearer token-1"]
    assert source.rejected == ["token-0"]


async def test_a_source_hears_of_the_second_401_of_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The renewed token was refused too: the next call has a third one."""
    source = Keeping()
    gateway, engine, _ = scripted(
        monkeypatch, httpx.Response(401), httpx.Response(401), OK, access_token=source
    )

    with pytest.raises(TokenRejectedError):
        await CALLS["order_history"](gateway)
    await CALLS["order_history"](gateway)

    assert sent_tokens(engine) == ["Bearer token-0", "Bearer token-1", "Bearer token-2"]


async def test_what_reject_raises_does_not_hide_the_401(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged by its type alone, for its text may hold the token."""
    gateway, _, _ = scripted(
        monkeypatch, httpx.Response(401), access_token=Keeping(LookupError("CANARY"))
    )

    with pytest.raises(UnauthorizedError):
        await gateway.aml.upload_document(_stream())

    logged = [record for record in caplog.records if record.name.startswith("gateway_sdk")]
    assert [record.getMessage() for record in logged] == [
        "reject() of the token source failed: LookupError"
    ]
    assert "CANARY" not in caplog.text


async def _reject_later(token: str) -> None: ...


class _Later:
    async def __call__(self, token: str) -> None: ...


@pytest.mark.parametrize("reject", [_reject_later, _Later(), 5])
def test_a_reject_that_cannot_be_called_at_once_is_refused(reject: object) -> None:
    """`async def reject` would never be awaited."""
    source = Keeping()
    source.reject = reject  # type: ignore[assignment,method-assign]  # that is the point

    with pytest.raises(ConfigurationError, match="access_token has a reject that is not a plain"):
        GatewaySession("https://gateway.test", access_token=source)


async def test_a_stream_is_not_sent_again_with_a_renewed_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A body that is gone cannot be sent with the new token, so the 401 goes up."""

    async def stream() -> Any:
        yield b"once"

    gateway, engine, _ = scripted(
        monkeypatch, httpx.Response(401), access_token=Renewing("old", "new")
    )

    with pytest.raises(UnauthorizedError):
        await gateway.aml.upload_document(stream())

    assert engine.bodies == [b"once"]
