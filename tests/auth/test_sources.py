"""A token or a coroutine function as a session's access token."""

import asyncio
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
from hypothesis import given, strategies as st

from gateway_sdk import AuthError, LoginRequiredError, Outcome, SessionStateError
from gateway_sdk.auth import Token
from gateway_sdk.auth.source import (
    FunctionTokenSource,
    as_token_source,
    fetch_token,
    invalidate,
    ready_token,
)
from tests.auth.responses import NOW, told
from tests.support import virtual_time
from tests.support.calls import CALLS
from tests.support.failing_steps import turns
from tests.support.logins import Clock, names, set_time
from tests.support.scripted import ScriptedEngine, scripted
from tests.support.secrecy import CANARY

OK, REFUSED = httpx.Response(200, json={}), httpx.Response(401)
LIFE = 100.0
RENEWED = 10.0  # seconds before the end: a tenth of the lifetime


def running_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the time of day, and the clock that is never set, which run together."""
    return set_time(monkeypatch, Clock(NOW))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return running_clock(monkeypatch)


def lasting(life: float | None) -> Token:
    """Return a token obtained an hour ago that lasts this number of seconds from now on."""
    ends = None if life is None else NOW + life
    return Token(CANARY, expires_at=ends, obtained_at=NOW - 3600)


def sent(engine: ScriptedEngine) -> list[str]:
    return [request.headers["Authorization"] for request in engine.requests]


def called(token: Token) -> Callable[[], Any]:
    async def give() -> Token:
        return token

    return give


GIVEN: list[Callable[[Token], Any]] = [lambda token: token, called]


@pytest.mark.parametrize("give", GIVEN)
@pytest.mark.parametrize("age", [0.0, 1e6])
async def test_an_expired_token_is_not_sent(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, give: Callable[[Token], Any], age: float
) -> None:
    """Sources measure the time themselves; a session is made with an expired token, too."""
    gateway, engine, waits = scripted(monkeypatch, OK, access_token=give(lasting(0)))
    clock.now += age
    with pytest.raises(LoginRequiredError, match="expired at 2027-01-15 08:00:00 UTC") as caught:
        await CALLS["create_customer"](gateway)
    assert (engine.requests, waits) == ([], [])
    assert (caught.value.outcome, caught.value.attempts) == (Outcome.NOT_SENT, ())
    assert caught.value.operation == "create_customer"
    assert CANARY not in told(caught.value) + repr(gateway)


async def test_a_token_that_expires_between_attempts_is_not_sent_again(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    def unavailable(request: httpx.Request) -> httpx.Response:
        clock.now += 60
        return httpx.Response(503)

    gateway, engine, _ = scripted(monkeypatch, unavailable, OK, access_token=lasting(60))
    with pytest.raises(LoginRequiredError) as caught:
        await CALLS["order_history"](gateway)
    assert [attempt.status for attempt in caught.value.attempts] == [503]
    assert len(engine.requests) == 1


@pytest.mark.parametrize("kind", [LookupError, asyncio.CancelledError])
async def test_a_source_that_fails_does_not_leak(kind: type[BaseException]) -> None:
    """The source's error may show a token, so its text is not used and it is not chained."""

    async def fails() -> str:
        raise kind(CANARY)

    with pytest.raises(AuthError, match=kind.__name__) as caught:
        await fetch_token(as_token_source("access_token", fails))
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


class Vault:
    """A coroutine function that returns token-1, token-2 and so on, and can be made to fail."""

    def __init__(self, clock: Clock, life: float | None = LIFE, kind: Any = Token) -> None:
        self.asked = 0
        self.fails = False
        self.failure: type[BaseException] = LookupError
        self.open = asyncio.Event()
        self.open.set()
        self._clock, self.life, self._kind = clock, life, kind

    async def __call__(self) -> Any:
        self.asked += 1
        name = f"token-{self.asked}"
        await self.open.wait()
        if self.fails:
            raise self.failure(name)
        if self._kind is not Token:
            return self._kind(name)
        now = self._clock.now
        ends = None if self.life is None else now + self.life
        return Token(name, expires_at=ends, obtained_at=now)


@pytest.fixture
def vault(clock: Clock) -> Vault:
    return Vault(clock)


@pytest.fixture
def source(vault: Vault) -> FunctionTokenSource:
    return FunctionTokenSource(vault)


async def test_all_calls_use_the_token_of_one_question(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, vault: Vault
) -> None:
    """Fifty calls at once ask once, and later ones not at all, until near the end."""
    gateway, engine, _ = scripted(monkeypatch, OK, access_token=vault)
    near = LIFE - RENEWED
    for wanted, moment in [(1, 0.0), (1, near - 0.1), (2, near), (2, near)]:
        clock.now = NOW + moment
        await asyncio.gather(*(CALLS["order_history"](gateway) for _ in range(50)))
        assert vault.asked == wanted
    assert set(sent(engine)) == {"Bearer token-1", "Bearer token-2"}


@pytest.mark.parametrize("give", [{"life": None}, {"kind": str}])
async def test_a_token_without_an_end_is_asked_for_by_each_call(
    clock: Clock, give: dict[str, Any]
) -> None:
    """It may belong to the caller's context; only the first question is waited for."""
    vault = Vault(clock, **give)
    source = FunctionTokenSource(vault)
    for first, asked in ((1, 1), (6, 10)):
        vault.open.clear()
        asking = asyncio.create_task(names(source, 5))
        await turns(3)
        assert vault.asked == asked
        vault.open.set()
        assert await asking == {f"token-{number}" for number in range(first, first + 5)}


@virtual_time.in_virtual_time
async def test_a_question_beside_the_calls_that_hangs_is_asked_again(
    clock: Clock, vault: Vault, source: FunctionTokenSource
) -> None:
    """Half a minute after it began, also when its token has ended meanwhile; never cut before."""
    await source.token()
    vault.open.clear()
    clock.now += LIFE - RENEWED
    assert await names(source, 9) == {"token-1"}
    await asyncio.sleep(RENEWED)
    clock.now += RENEWED
    vault.open = asyncio.Event()
    vault.open.set()
    began = asyncio.get_running_loop().time()
    assert await names(source, 9) == {"token-3"}
    assert asyncio.get_running_loop().time() - began == pytest.approx(30 - RENEWED)


@pytest.mark.parametrize("failure", [LookupError, asyncio.CancelledError])
async def test_first_questions_that_fail_are_asked_one_after_another(
    failure: type[BaseException],
) -> None:
    """Each may depend on its caller's context. After three, a vault that is down delays nobody."""
    asked, at_once = 0, list[int]()
    may_fail = asyncio.Semaphore(0)

    async def fails() -> str:
        nonlocal asked
        asked += 1
        await may_fail.acquire()
        raise failure

    source = FunctionTokenSource(fails)
    asking = [asyncio.create_task(fetch_token(source)) for _ in range(9)]
    for _ in range(4):
        await turns(9)
        at_once.append(asked)
        may_fail.release()
    for _ in asking:
        may_fail.release()
    results = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(result) for result in results] == 9 * [AuthError]
    assert at_once == [1, 2, 3, 9]


@pytest.mark.parametrize("failure", [LookupError, asyncio.CancelledError])
async def test_a_failure_ahead_of_the_end_costs_no_call(
    clock: Clock,
    vault: Vault,
    source: FunctionTokenSource,
    failure: type[BaseException],
) -> None:
    """The token that still works is used, and the function asked again after a second."""
    await source.token()
    vault.fails, vault.failure = True, failure
    for moment, asked in [(LIFE - 9, 2), (LIFE - 8.1, 2), (LIFE - 8, 3)]:
        clock.now = NOW + moment
        assert await names(source, 3) == {"token-1"}
        assert vault.asked == asked
    clock.now = NOW + LIFE
    with pytest.raises(failure) as caught:
        await source.token()
    # What was asked beside the calls keeps no frames, which may hold secrets.
    assert "__call__" not in [entry.name for entry in caught.traceback]


async def test_a_function_that_keeps_its_token_until_its_end_is_asked_once_a_second(
    clock: Clock,
) -> None:
    """MSAL does so, for one."""
    asked = 0

    async def kept() -> Token:
        nonlocal asked
        asked += 1
        return Token("kept", expires_at=NOW + LIFE, obtained_at=NOW)

    source = FunctionTokenSource(kept)
    clock.now += LIFE - RENEWED
    for _ in range(50):
        assert await names(source, 3) == {"kept"}
        await turns(3)
        clock.now += 0.1
    assert asked in (5, 6)


async def test_a_rejected_token_is_asked_for_once_more(
    clock: Clock, vault: Vault, source: FunctionTokenSource, caplog: pytest.LogCaptureFixture
) -> None:
    """Also if another one was about to be asked for beside the calls."""
    old = await fetch_token(source)
    assert await names(source, 50, rejected=old) == {"token-2"}
    assert vault.asked == 2
    invalidate(source, old)
    assert ready_token(source) is not None
    clock.now += LIFE - RENEWED
    vault.open.clear()
    invalidate(source, await source.token())
    assert ready_token(source) is None
    waiting = asyncio.create_task(names(source, 50))
    await turns(5)
    vault.open.set()
    assert await waiting == {"token-3"}
    assert (vault.asked, caplog.records) == (3, [])


async def test_a_question_goes_on_when_its_caller_is_cancelled(
    vault: Vault, source: FunctionTokenSource
) -> None:
    """What it returns may have ended the last token: those that wait get it."""
    vault.open.clear()
    first = asyncio.create_task(source.token())
    others = asyncio.create_task(names(source, 9))
    await asyncio.sleep(0)
    first.cancel()
    vault.open.set()
    assert await others == {"token-1"}
    assert vault.asked == 1


@virtual_time.in_virtual_time
async def test_a_question_ends(vault: Vault, source: FunctionTokenSource) -> None:
    """When a login would have ended, with or without callers; so tasks do not pile up."""
    vault.open.clear()
    for _ in range(60):
        with suppress(TimeoutError):
            async with asyncio.timeout(60):
                await names(source, 3)
    assert len(asyncio.all_tasks()) <= 1 + 600 / 30
    with pytest.raises(TimeoutError):
        await source.token()
    assert (virtual_time.now(), len(asyncio.all_tasks())) == (4200, 1)


@virtual_time.in_virtual_time
async def test_a_late_answer_of_a_question_that_hung_is_not_kept(
    vault: Vault, source: FunctionTokenSource
) -> None:
    """Its token may be from before the kept one, which ended it."""
    vault.open.clear()
    is_late = vault.open
    first = asyncio.create_task(names(source, 1))
    await asyncio.sleep(30)
    vault.open = asyncio.Event()
    vault.open.set()
    assert await names(source, 9) == {"token-2"}
    is_late.set()
    await first
    assert await names(source, 9) == {"token-2"}


@virtual_time.in_virtual_time
async def test_who_has_asked_a_function_that_hangs_gets_the_token_of_a_later_question(
    vault: Vault, source: FunctionTokenSource
) -> None:
    """Within a second."""
    vault.open.clear()
    hanging = [asyncio.create_task(names(source, 1)) for _ in range(3)]
    await asyncio.sleep(30)  # now the second asks
    await asyncio.sleep(30)
    vault.open = asyncio.Event()
    vault.open.set()
    assert await names(source, 1) == {"token-3"}
    assert await asyncio.gather(*hanging) == 3 * [{"token-3"}]
    assert virtual_time.now() <= 61


@pytest.mark.parametrize("of_view", [False, True])
async def test_a_session_that_is_closed_leaves_no_question(
    monkeypatch: pytest.MonkeyPatch, vault: Vault, of_view: bool
) -> None:
    """Also where its caller has left."""
    session, _, _ = scripted(monkeypatch, OK, access_token="t" if of_view else vault, drain=0)
    gateway = session.with_options(access_token=vault) if of_view else session
    vault.open.clear()
    calls = [asyncio.create_task(CALLS["order_history"](gateway)) for _ in range(2)]
    await turns(5)
    calls[0].cancel()
    await session.aclose()
    assert asyncio.all_tasks() <= {asyncio.current_task(), *calls}
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in errors] == [asyncio.CancelledError, SessionStateError]


def test_one_source_works_in_several_event_loops(
    clock: Clock, vault: Vault, source: FunctionTokenSource, caplog: pytest.LogCaptureFixture
) -> None:
    """A question beside the calls ends with its loop, and is asked again in the next one."""
    for number, moment in ((1, 0.0), (1, LIFE - 1), (3, LIFE)):
        clock.now = NOW + moment
        vault.open = asyncio.Event()
        if number > 1 or not moment:
            vault.open.set()
        assert asyncio.run(names(source, 9)) == {f"token-{number}"}
    assert caplog.records == []


@given(st.lists(st.tuples(st.floats(0, 3 * LIFE), st.booleans()), max_size=30))
def test_no_expired_token_is_ever_returned(steps: list[tuple[float, bool]]) -> None:
    """Whatever the times and the failures; and nothing is asked while a token is fresh."""

    async def scenario() -> None:
        clock = running_clock(monkeypatch)
        vault = Vault(clock)
        source = FunctionTokenSource(vault)
        ends = -math.inf
        for pause, fails in steps:
            clock.now += pause
            vault.fails, asked = fails, vault.asked
            try:
                token = await source.token()
                await asyncio.sleep(0)  # in which another one is asked for beside it
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
