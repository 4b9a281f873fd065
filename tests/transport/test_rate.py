"""The rate limiter: exact, fair, nothing lost when callers are cancelled. In virtual time."""

import asyncio
from typing import cast

import pytest
from hypothesis import given, strategies as st

from gateway_sdk import RateLimit
from gateway_sdk.rate_limit import RateLimiter
from tests.support.virtual_time import VirtualTimeLoop, in_virtual_time, now


class Callers:
    """Callers of one limiter, each with when it passed."""

    def __init__(self, limit: RateLimit) -> None:
        self.limiter = RateLimiter(limit)
        # When, by the number of the caller, in the order in which they passed.
        self.passed: dict[int, float] = {}

    async def come(self, number: int) -> asyncio.Task[None]:
        task = asyncio.create_task(self._enter(number))
        await asyncio.sleep(0)
        return task

    async def _enter(self, number: int) -> None:
        await self.limiter.enter()
        self.passed[number] = now()
        self.limiter.begin()


def be_busy(seconds: float) -> None:
    cast("VirtualTimeLoop", asyncio.get_running_loop()).now += seconds


@in_virtual_time
async def test_nobody_overtakes_those_who_wait() -> None:
    """Who comes when there is room again, before the others have been let through, queues."""
    callers = Callers(RateLimit(1, 1.0))
    tasks = [await callers.come(number) for number in (0, 1)]
    be_busy(1.0)  # there would be room, but the timer has not run
    tasks.append(asyncio.create_task(callers._enter(2)))
    await asyncio.gather(*tasks)

    assert callers.passed == {0: 0.0, 1: 1.0, 2: 2.0}


@pytest.mark.parametrize("busy", [1.0, 2.5])
@pytest.mark.parametrize("gone", [1, 2])
@in_virtual_time
async def test_a_caller_that_is_cancelled_as_its_turn_comes_takes_none(
    gone: int, busy: float
) -> None:
    """The first one that waits, or one behind it, whose turn the loop was too busy to see."""
    callers = Callers(RateLimit(1, 1.0))
    tasks = [await callers.come(number) for number in range(4)]
    be_busy(busy)
    tasks[gone].cancel()
    await asyncio.wait(tasks)

    assert tasks[gone].cancelled()
    assert list(callers.passed) == [number for number in range(4) if number != gone]
    assert list(callers.passed.values()) == [0.0, busy, busy + 1.0]


@pytest.mark.parametrize("start", [0.0, 0.3, 1e6 + 0.3, 1e9 + 0.7])
@pytest.mark.parametrize("seconds", [0.1, 1 / 3, 1e-3])
@in_virtual_time
async def test_no_rounding_keeps_callers_for_ever(start: float, seconds: float) -> None:
    """However the numbers round, the timer comes when there is room, and not a trifle before."""
    be_busy(start)
    callers = Callers(RateLimit(1, seconds))
    await asyncio.gather(*[await callers.come(number) for number in range(20)])

    assert callers.passed[19] - start == pytest.approx(19 * seconds, abs=1e-5)


EIGHTHS = st.integers(0, 12).map(lambda number: number / 8)
PATIENCE = st.none() | EIGHTHS.map(lambda seconds: seconds + 1 / 16)  # never ends with a turn
ARRIVALS = st.lists(st.tuples(EIGHTHS, PATIENCE), min_size=1, max_size=40)


def expected(limit: RateLimit, callers: list[tuple[float, float | None]]) -> dict[int, float]:
    """Work out when each caller passes, by the definition."""
    passed: dict[int, float] = {}
    arrival = 0.0
    for number, (gap, patience) in enumerate(callers):
        arrival += gap
        before = list(passed.values())
        turn = max([arrival, *before[-1:]])
        if len(before) >= limit.requests:
            turn = max(turn, before[-limit.requests] + limit.seconds)
        if patience is None or turn < arrival + patience:
            passed[number] = turn
    return passed


@given(st.builds(RateLimit, st.integers(1, 4), st.integers(1, 12).map(lambda n: n / 8)), ARRIVALS)
@in_virtual_time
async def test_the_limit_is_exact(
    limit: RateLimit, arrivals: list[tuple[float, float | None]]
) -> None:
    """However callers come and give up: never more than allowed, never later than needed."""
    callers = Callers(limit)
    loop = asyncio.get_running_loop()
    tasks = []
    for number, (gap, patience) in enumerate(arrivals):
        if gap:
            await asyncio.sleep(gap)
        tasks.append(await callers.come(number))
        if patience is not None:
            loop.call_later(patience, tasks[-1].cancel)
    await asyncio.wait(tasks)

    times = list(callers.passed.values())
    for first, later in zip(times, times[limit.requests :], strict=False):
        assert later - first >= limit.seconds
    assert list(callers.passed.items()) == list(expected(limit, arrivals).items())
