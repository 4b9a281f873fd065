"""Access tokens: where they come from, what is refused, what happens after a 401."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

import httpx
import pytest
from pydantic import SecretStr

from gateway_sdk import (
    Advice,
    AuthError,
    ConfigurationError,
    ConnectionFailedError,
    ForbiddenError,
    GatewayError,
    GatewaySession,
    LoginRequiredError,
    Observer,
    Outcome,
    TokenRejectedError,
    UnauthorizedError,
)
from gateway_sdk.auth import MemoryStore, SharedTokenSource, Token
from gateway_sdk.auth.source import FunctionTokenSource
from tests.support.calls import CALLS, Call
from tests.support.scripted import ScriptedEngine, Step, scripted
from tests.support.secrecy import texts_of

OK = httpx.Response(200, json={})


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


class Same:
    """A source that has one token, and fails when it is asked for another one if it should."""

    def __init__(self, kept: str | SecretStr = "same", failure: Exception | None = None) -> None:
        self._kept = kept
        self._failure = failure

    async def token(self, rejected: object = None) -> str | SecretStr:
        if rejected is not None and self._failure is not None:
            raise self._failure
        return self._kept


class Noting(Same):
    """A source of the user's own with a method that has the name of one of ours."""

    def note_success(self) -> None:
        raise AssertionError


class Masked(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "masked"


def sent_tokens(engine: ScriptedEngine) -> list[str]:
    return [request.headers["Authorization"].removeprefix("Bearer ") for request in engine.requests]


def giving(token: Any) -> Callable[[], Any]:
    async def source() -> Any:
        if isinstance(token, Exception):
            raise token
        return token

    return source


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ("abc.DEF-_~+/==", "abc.DEF-_~+/=="),
        (SecretStr("abc"), "abc"),
        (giving("from-a-function"), "from-a-function"),
        (giving(SecretStr("from-a-function")), "from-a-function"),
        (Same("first"), "first"),
        (Same(SecretStr("first")), "first"),
        (Noting("first"), "first"),
        (Masked("first"), "first"),
        (giving(Masked("first")), "first"),
    ],
)
async def test_every_kind_of_source_is_sent(
    monkeypatch: pytest.MonkeyPatch, given: Any, sent: str
) -> None:
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=given)

    await CALLS["order_history"](gateway)

    assert sent_tokens(engine) == [sent]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("CANARY\n", r"strip\(\) it"),
        ("CAN\nARY", "has characters .*RFC 6750"),
        ("Bearer CANARY", "begins with the word Bearer.* give the token alone"),
    ],
)
async def test_what_no_bearer_token_can_be_is_refused(
    monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem) as at_once:
        GatewaySession("https://gateway.test", access_token=SecretStr(text))
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=giving(text))
    with pytest.raises(ConfigurationError, match=problem) as later:
        await CALLS["order_history"](gateway)

    assert engine.requests == []
    assert (later.value.outcome, later.value.advice) == (Outcome.NOT_SENT, Advice.FIX)
    for error in (at_once.value, later.value):
        assert "CAN" not in texts_of(error)


@pytest.mark.parametrize(
    ("source", "message", "advice"),
    [
        # No login helps against a mistake of the program: nobody may wait for one.
        (giving(7), "^create_customer: access_token is no token: .* of the type int", Advice.FIX),
        (giving(None), "of the type NoneType", Advice.FIX),
        (giving({"access_token": "CANARY"}), "of the type dict", Advice.FIX),
        (lambda: "token", "make it async", Advice.FIX),
        (lambda: None, "make it async", Advice.FIX),
        (giving(LookupError("CANARY")), "failed: LookupError", Advice.LOG_IN),
        (giving(TypeError("CANARY")), "failed: TypeError", Advice.LOG_IN),
        # An error of the package is not wrapped in another one.
        (giving(AuthError("log in first")), "^create_customer: log in first", Advice.LOG_IN),
    ],
)
async def test_a_source_that_fails_ends_the_call_before_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, source: Callable[[], Any], message: str, advice: Advice
) -> None:
    """The cause is kept, but not its text."""
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=source)

    with pytest.raises((AuthError, ConfigurationError), match=message) as caught:
        await CALLS["create_customer"](gateway)

    assert engine.requests == []
    assert "CANARY" not in str(caught.value)
    assert (caught.value.outcome, caught.value.advice) == (Outcome.NOT_SENT, advice)


async def test_no_caller_gets_the_error_of_the_user_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A function may ask the caller's context for the user; a token without an end is not kept."""
    user: ContextVar[str] = ContextVar("user")
    may_answer = asyncio.Event()

    async def token_of_user() -> str:
        await may_answer.wait()
        if user.get() == "ada":
            raise AuthError("ada is not logged in")
        return user.get()

    async def call(name: str) -> None:
        user.set(name)
        await CALLS["order_history"](gateway)

    gateway, engine, _ = scripted(monkeypatch, OK, OK, access_token=token_of_user)
    calls = [asyncio.create_task(call(name)) for name in ("ada", "bob", "eve")]
    for _ in range(9):
        await asyncio.sleep(0)
    may_answer.set()
    errors = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(error) for error in errors] == [AuthError, type(None), type(None)]
    assert sorted(sent_tokens(engine)) == ["bob", "eve"]


async def test_calls_share_the_failure_that_they_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A function of tokens with an end is asked once for all, and again by the next call."""
    asked, may_fail = -1, asyncio.Event()
    failures = LookupError(), LoginRequiredError("log in")

    async def failing() -> Token:
        nonlocal asked
        asked += 1
        if not asked:
            return first
        await may_fail.wait()
        raise failures[asked - 1]

    first, source = Token("first", expires_at=time.time() + 3600), FunctionTokenSource(failing)
    source.reject(await source.token())
    gateway, _, _ = scripted(monkeypatch, access_token=source)
    for number, wanted in enumerate((AuthError, LoginRequiredError), 1):
        may_fail.clear()
        calls = [asyncio.create_task(CALLS["order_history"](gateway)) for _ in range(5)]
        for _ in range(9):
            await asyncio.sleep(0)
        may_fail.set()
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in errors] == [wanted] * 5
        assert len(set(map(id, errors))) == 5
        assert asked == number


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


async def stream() -> AsyncIterator[bytes]:
    yield b"once"


def upload(gateway: GatewaySession) -> Any:
    return gateway.aml.upload_document(stream())


def logging_in(*tokens: str) -> Callable[[], Awaitable[Token]]:
    left = iter(tokens)

    async def log_in() -> Token:
        return Token(next(left))

    return log_in


class After401(NamedTuple):
    source: Callable[[], Any]
    statuses: list[int]
    call: Call
    tokens: list[str]
    error: type[GatewayError] | None
    next: str


CREATE, READ = CALLS["create_customer"], CALLS["order_history"]
AFTER_401: dict[str, After401] = {
    "renewed once": After401(Keeping, [401], CREATE, ["token-0", "token-1"], None, "token-1"),
    "renewed, and rejected too": After401(
        Keeping, [401, 401], CREATE, ["token-0", "token-1"], TokenRejectedError, "token-2"
    ),
    # One renewal per call: a 401 in a later attempt is final, and the source has to know of it.
    "rejected in a later attempt": After401(
        Keeping,
        [401, 503, 401],
        READ,
        ["token-0", "token-1", "token-1"],
        TokenRejectedError,
        "token-2",
    ),
    "a static token": After401(
        lambda: "static", [401], READ, ["static"], UnauthorizedError, "static"
    ),
    "a static token with an end": After401(
        lambda: Token("static", expires_at=time.time() + 3600),
        [401],
        READ,
        ["static"],
        UnauthorizedError,
        "static",
    ),
    "a static token and a stream": After401(
        lambda: "static", [401], upload, ["static"], UnauthorizedError, "static"
    ),
    "a source of one token": After401(Same, [401], READ, ["same"], UnauthorizedError, "same"),
    "a renewal that fails": After401(
        lambda: Same(failure=LookupError()), [401], CREATE, ["same"], AuthError, "same"
    ),
    "a renewal that others saw refused": After401(
        lambda: Same(failure=TokenRejectedError("refused to others", status=401)),
        [401],
        CREATE,
        ["same"],
        TokenRejectedError,
        "same",
    ),
    # The token is good and the right is missing.
    "forbidden": After401(Keeping, [403], READ, ["token-0"], ForbiddenError, "token-0"),
    # Nobody logs in for a body that is gone anyway.
    "a stream": After401(Keeping, [401], upload, ["token-0"], UnauthorizedError, "token-1"),
    "a stream and a shared source": After401(
        lambda: SharedTokenSource(MemoryStore(), logging_in("old", "new")),
        [401],
        upload,
        ["old"],
        UnauthorizedError,
        "new",
    ),
    "a source without reject": After401(Same, [401], upload, ["same"], UnauthorizedError, "same"),
}


@pytest.mark.parametrize("case", AFTER_401.values(), ids=AFTER_401)
async def test_a_token_that_is_refused(monkeypatch: pytest.MonkeyPatch, case: After401) -> None:
    source = case.source()
    steps: list[Step] = [httpx.Response(code, json={"message": "no"}) for code in case.statuses]
    gateway, engine, waits = scripted(monkeypatch, *steps, OK, access_token=source)

    if case.error is None:
        await case.call(gateway)
    else:
        with pytest.raises(case.error) as caught:
            await case.call(gateway)
        assert type(caught.value) is case.error
        assert [attempt.status for attempt in caught.value.attempts] == case.statuses
        assert caught.value.outcome is Outcome.REFUSED
        assert caught.value.advice is (
            Advice.FIX if case.error is ForbiddenError else Advice.LOG_IN
        )
        assert "error.payload.message" in str(caught.value) or case.error is AuthError
        assert caught.value.token_is_static is isinstance(source, str | Token)
    if isinstance(source, Keeping):
        assert len(source.rejected) == int(case.next[-1])

    await case.call(gateway)

    assert sent_tokens(engine) == [*case.tokens, case.next]
    assert len(waits) == case.statuses.count(503)


async def test_what_reject_raises_does_not_hide_the_401(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged by its type alone, for its text may hold the token."""
    gateway, _, _ = scripted(
        monkeypatch, httpx.Response(401), access_token=Keeping(LookupError("CANARY"))
    )

    with pytest.raises(UnauthorizedError):
        await upload(gateway)

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
