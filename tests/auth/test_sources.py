"""A `Token` as a session's access token: sent while it is valid, never after."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    AuthError,
    GatewaySession,
    LoginRequiredError,
    Outcome,
    TokenRejectedError,
    UnauthorizedError,
)
from gateway_sdk.auth import AccessToken, Token
from gateway_sdk.auth.source import as_token_source, fetch_token
from tests.auth.responses import CANARY, NOW, told
from tests.support.calls import CALLS
from tests.support.scripted import scripted

OK = httpx.Response(200, json={})


class Source:
    """A token source that returns its next token after a rejection, and records rejections."""

    def __init__(self, *tokens: AccessToken) -> None:
        self.tokens = list(tokens)
        self.rejected: list[Any] = []

    async def token(self, rejected: Any = None) -> AccessToken:
        if rejected is not None:
            self.rejected.append(rejected)
            self.tokens = self.tokens[1:] or self.tokens
        return self.tokens[0]


def called(token: Token) -> Callable[[], Any]:
    async def give() -> Token:
        return token

    return give


GIVEN: dict[str, Callable[[Token], Any]] = {
    "static": lambda token: token,
    "function": called,
    "source": Source,
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Set the time of day, which the test may change; no other time passes for the sources."""
    now = [NOW]
    monkeypatch.setattr(time, "time", lambda: now[0])
    clocks = SimpleNamespace(time=lambda: now[0], monotonic=lambda: now[0])
    monkeypatch.setattr("gateway_sdk.auth.source.time", clocks)
    return now


@pytest.mark.parametrize("give", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("life", [None, 3600.0, 1.0, 0.001])
async def test_a_token_is_sent_while_it_lasts(
    monkeypatch: pytest.MonkeyPatch, clock: list[float], give: Callable[[Token], Any], life: float
) -> None:
    """A token of a known or unknown lifetime is sent, up to its last instant."""
    ends = None if life is None else NOW + life
    token = Token(CANARY, expires_at=ends, obtained_at=NOW - 3600)
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=give(token))

    await CALLS["create_customer"](gateway)

    assert [request.headers["Authorization"] for request in engine.requests] == [f"Bearer {CANARY}"]


@pytest.mark.parametrize("give", [GIVEN["static"], GIVEN["function"]])
@pytest.mark.parametrize("age", [0.0, 1.0, 1e6])
async def test_an_expired_token_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, clock: list[float], give: Callable[[Token], Any], age: float
) -> None:
    """An expired token is a LoginRequiredError; sources measure the time themselves."""
    token = Token(CANARY, expires_at=NOW, obtained_at=NOW - 3600)
    gateway, engine, waits = scripted(monkeypatch, OK, access_token=give(token))
    clock[0] = NOW + age

    with pytest.raises(LoginRequiredError, match="expired at 2027-01-15 08:00:00 UTC") as caught:
        await CALLS["create_customer"](gateway)

    assert engine.requests == []
    assert waits == []
    assert caught.value.outcome is Outcome.NOT_SENT
    assert caught.value.operation == "create_customer"
    assert caught.value.attempts == ()
    assert CANARY not in told(caught.value)


async def test_a_clock_that_is_set_back_does_not_prolong_a_token(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """A session's own token ends with its lifetime, by the clock that is further ahead."""
    monotonic = [0.0]
    clocks = SimpleNamespace(time=lambda: clock[0], monotonic=lambda: monotonic[0])
    monkeypatch.setattr("gateway_sdk.auth.source.time", clocks)
    source = as_token_source("access_token", Token("x", expires_at=NOW + 60, obtained_at=NOW))
    clock[0] -= 3600
    monotonic[0] += 59

    assert await fetch_token(source)
    monotonic[0] += 1
    with pytest.raises(LoginRequiredError):
        await fetch_token(source)


async def test_a_session_lasts_longer_than_its_token(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """A static token is checked before each call, not only when the session is made."""
    token = Token(CANARY, expires_at=NOW + 60, obtained_at=NOW)
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=token)

    await CALLS["order_history"](gateway)
    clock[0] = NOW + 60
    with pytest.raises(LoginRequiredError):
        await CALLS["order_history"](gateway)

    assert len(engine.requests) == 1


async def test_an_expired_token_is_taken_by_a_session_and_refused_by_its_calls(
    clock: list[float],
) -> None:
    """Making a session never fails because of a token's age: it may be replaced before a call."""
    gateway = GatewaySession("https://gateway.test", access_token=Token(CANARY, expires_at=1))

    assert CANARY not in repr(gateway)
    with pytest.raises(LoginRequiredError):
        await CALLS["order_history"](gateway)


async def test_a_token_that_expires_between_attempts_is_not_sent_again(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """A retry asks for the token again, and the error has the attempts before it."""

    def unavailable(request: httpx.Request) -> httpx.Response:
        clock[0] = NOW + 60
        return httpx.Response(503)

    token = Token(CANARY, expires_at=NOW + 60, obtained_at=NOW)
    gateway, engine, _ = scripted(monkeypatch, unavailable, OK, access_token=token)

    with pytest.raises(LoginRequiredError) as caught:
        await CALLS["order_history"](gateway)

    assert [attempt.status for attempt in caught.value.attempts] == [503]
    assert len(engine.requests) == 1


async def test_a_rejected_token_is_renewed_and_handed_back_whole(
    monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """After a 401 a source gets the Token that it returned, and its next one is sent."""
    old, new = Token("old", expires_at=NOW + 60), Token("new")
    source = Source(old, new)
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(401), OK, access_token=source)

    await CALLS["order_history"](gateway)

    assert [request.headers["Authorization"] for request in engine.requests] == [
        "Bearer old",
        "Bearer new",
    ]
    assert len(source.rejected) == 1
    assert source.rejected[0] is old


async def test_a_renewed_token_that_is_refused_too_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second 401, for a second Token, ends the call."""
    source = Source(Token("one"), Token("two"), Token("three"))
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(401), access_token=source)

    with pytest.raises(TokenRejectedError):
        await CALLS["order_history"](gateway)

    assert len(engine.requests) == 2


@pytest.mark.parametrize("give", GIVEN.values(), ids=GIVEN)
async def test_a_token_that_cannot_be_renewed_is_unauthorized(
    monkeypatch: pytest.MonkeyPatch, give: Callable[[Token], Any]
) -> None:
    """A Token with the same text is not another token."""
    gateway, engine, _ = scripted(
        monkeypatch, httpx.Response(401), access_token=give(Token(CANARY))
    )

    with pytest.raises(UnauthorizedError) as caught:
        await CALLS["order_history"](gateway)

    assert type(caught.value) is UnauthorizedError
    assert len(engine.requests) == 1
    assert CANARY not in told(caught.value)


async def test_a_newer_token_with_the_same_text_is_no_other_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The gateway sees the text only: the same one is not sent twice."""
    source = Source(Token(CANARY, obtained_at=1), Token(CANARY, obtained_at=2))
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(401), access_token=source)

    with pytest.raises(UnauthorizedError) as caught:
        await CALLS["order_history"](gateway)

    assert type(caught.value) is UnauthorizedError
    assert len(engine.requests) == 1


@pytest.mark.parametrize("given", ["text", Token("text")])
async def test_a_source_of_one_token_gives_it_again(given: AccessToken) -> None:
    """A rejection makes no difference if there is no other token."""
    source = as_token_source("access_token", given)

    token = await fetch_token(source)

    assert isinstance(token, Token)
    assert await fetch_token(source, rejected=token) is token


async def test_a_source_that_fails_does_not_leak_through_its_cause() -> None:
    """The source's error may show a token, so its text is not used and it is not chained."""

    async def fails() -> str:
        raise LookupError(CANARY)

    with pytest.raises(AuthError, match="LookupError") as caught:
        await fetch_token(as_token_source("access_token", fails))

    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
