"""A coroutine function as access token: a token with an end is kept for all calls until near it."""

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given, strategies as st

from gateway_sdk import LoginRequiredError, Token
from gateway_sdk.auth.source import FunctionTokenSource, fetch_token, invalidate, ready_token
from gateway_sdk.auth.token import text_of
from tests.auth.responses import NOW
from tests.support.calls import CALLS
from tests.support.scripted import scripted

LIFE = 100.0
RENEWED = 10.0  # seconds before the end: a tenth of the lifetime


class Clock:
    """The time of day, and a clock that is never set; they run together."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = NOW
        clocks = SimpleNamespace(time=lambda: self.now, monotonic=lambda: self.now)
        monkeypatch.setattr("gateway_sdk.auth.source.time", clocks)


class Vault:
    """A coroutine function that returns token-1, token-2 and so on, and can be made to fail.

    Attributes:
        asked: How often it was called.
    """

    def __init__(self, clock: Clock, life: float | None = LIFE, kind: Any = Token) -> None:
        self.asked = 0
        self.fails = False
        self.open = asyncio.Event()
        self.open.set()
        self._clock, self._life, self._kind = clock, life, kind

    async def __call__(self) -> Any:
        self.asked += 1
        name = f"token-{self.asked}"
        await self.open.wait()
        if self.fails:
            raise LookupError(name)
        if self._kind is not Token:
            return self._kind(name)
        now = self._clock.now
        ends = None if self._life is None else now + self._life
        return Token(name, expires_at=ends, obtained_at=now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


async def names(source: FunctionTokenSource, count: int, **more: Any) -> set[str]:
    """Return the tokens that so many callers get at the same time."""
    asking = (source.token(**more) for _ in range(count))
    return {text_of(token) for token in await asyncio.gather(*asking)}


async def test_all_calls_use_the_token_of_one_question(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Fifty calls at once ask once, and later ones not at all, until near the end."""
    vault = Vault(clock)
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(200, json={}), access_token=vault)
    for wanted, moment in [(1, 0.0), (1, LIFE - RENEWED - 0.1), (2, LIFE - RENEWED)]:
        clock.now = NOW + moment
        await asyncio.gather(*(CALLS["order_history"](gateway) for _ in range(50)))
        assert vault.asked == wanted
    sent = {request.headers["Authorization"] for request in engine.requests}
    assert sent == {"Bearer token-1", "Bearer token-2"}


@pytest.mark.parametrize("give", [{"life": None}, {"kind": str}])
async def test_a_token_without_an_end_is_asked_for_by_each_call(
    clock: Clock, give: dict[str, Any]
) -> None:
    """It may belong to the caller's context; only the first question is waited for."""
    vault = Vault(clock, **give)
    source = FunctionTokenSource(vault)

    assert await names(source, 5) == {f"token-{number}" for number in range(1, 6)}
    vault.open.clear()
    asking = [asyncio.create_task(source.token()) for _ in range(5)]
    await asyncio.sleep(0)
    assert vault.asked == 10
    vault.open.set()
    await asyncio.gather(*asking)


async def test_near_the_end_one_call_asks_and_the_others_do_not_wait(clock: Clock) -> None:
    """The token is used as long as it works; after its end all wait for the next one."""
    vault = Vault(clock)
    source = FunctionTokenSource(vault)
    await source.token()
    vault.open.clear()
    clock.now += LIFE - RENEWED
    renewing = asyncio.create_task(source.token())
    await asyncio.sleep(0)

    assert await names(source, 9) == {"token-1"}
    clock.now = NOW + LIFE
    waiting = asyncio.create_task(names(source, 9))
    await asyncio.sleep(0)
    vault.open.set()

    assert text_of(await renewing) == "token-2"
    assert await waiting == {"token-2"}
    assert vault.asked == 2


async def test_a_failure_ahead_of_the_end_costs_no_call(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """The token that still works is used, and the function asked again after a second."""
    vault = Vault(clock)
    source = FunctionTokenSource(vault)
    await source.token()
    vault.fails = True
    for moment, asked in [(LIFE - 9, 2), (LIFE - 8.1, 2), (LIFE - 8, 3)]:
        clock.now = NOW + moment
        assert await names(source, 3) == {"token-1"}
        assert vault.asked == asked
    assert [record.getMessage() for record in caplog.records] == [
        "the access token cannot be renewed ahead of its end: LookupError"
    ] * 2

    clock.now = NOW + LIFE
    with pytest.raises(LookupError):
        await source.token()


async def test_a_rejected_token_is_asked_for_once_more(clock: Clock) -> None:
    """Many 401 for one token ask once; one for a token that was replaced asks not at all."""
    vault = Vault(clock)
    source = FunctionTokenSource(vault)
    old = await fetch_token(source)

    assert await names(source, 50, rejected=old) == {"token-2"}
    assert vault.asked == 2
    invalidate(source, old)
    assert ready_token(source) is not None
    invalidate(source, await source.token())
    assert ready_token(source) is None
    assert await names(source, 50) == {"token-3"}


async def test_a_cancelled_question_is_asked_by_the_next(clock: Clock) -> None:
    """The caller that asks may leave: those that wait ask instead, once."""
    vault = Vault(clock)
    source = FunctionTokenSource(vault)
    vault.open.clear()
    first = asyncio.create_task(source.token())
    others = asyncio.create_task(names(source, 9))
    await asyncio.sleep(0)
    first.cancel()
    vault.open.set()

    assert await others == {"token-2"}


def test_one_source_works_in_several_event_loops(clock: Clock) -> None:
    """One after the other, with waiting callers in each; the token is kept between them."""
    vault = Vault(clock)
    source = FunctionTokenSource(vault)
    for wanted in ("token-1", "token-1", "token-2"):
        assert asyncio.run(names(source, 9)) == {wanted}
        clock.now += LIFE / 2


async def test_an_expired_token_is_not_kept(clock: Clock) -> None:
    vault = Vault(clock, life=-1)
    for asked in (1, 2):
        source = FunctionTokenSource(vault)
        with pytest.raises(LoginRequiredError):
            await source.token()
        assert (vault.asked, ready_token(source)) == (asked, None)


@given(st.lists(st.tuples(st.floats(0, 3 * LIFE), st.booleans()), max_size=30))
def test_no_expired_token_is_ever_returned(steps: list[tuple[float, bool]]) -> None:
    """Whatever the times and the failures; and nothing is asked while a token is fresh."""

    async def scenario() -> None:
        clock = Clock(monkeypatch)
        vault = Vault(clock)
        source = FunctionTokenSource(vault)
        ends = -math.inf
        for pause, fails in steps:
            clock.now += pause
            vault.fails, asked = fails, vault.asked
            try:
                token = await source.token()
            except LookupError:
                assert clock.now >= ends
                continue
            assert isinstance(token, Token)
            assert token.expires_at is not None
            assert clock.now < token.expires_at
            assert vault.asked == asked or clock.now >= ends - RENEWED
            ends = token.expires_at

    with pytest.MonkeyPatch.context() as monkeypatch:
        asyncio.run(scenario())
