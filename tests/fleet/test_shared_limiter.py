"""The limiter over permits that others share: order, cancellation, outages. In virtual time."""

import asyncio
from collections.abc import Callable

import pytest

from gateway_sdk import ConfigurationError, RateLimit
from gateway_sdk.fleet._permits import Permits as RedisPermits
from gateway_sdk.fleet._rate_limit import SharedLimiter
from tests.support.virtual_time import now, run


class Permits(RedisPermits):
    """One permit per second, as from a Redis that answers or does not.

    Attributes:
        taken: When permits were given, and how many.
        error: What the next one to ask gets.
        at_last: Called when permits are about to be given, in the same turn of the loop.
    """

    def __init__(self) -> None:
        self.taken: list[tuple[float, int]] = []
        self.answers = True
        self.error: Exception | None = None
        self.at_last: Callable[[], object] = lambda: None
        self.closed = False

    async def take(self, count: int) -> bool:
        await asyncio.sleep(count if self.answers else 0)
        self.at_last()
        if self.error is not None:
            raise self.error
        if self.answers:
            self.taken.append((now(), count))
        return self.answers

    async def aclose(self) -> None:
        self.closed = True


def limiter_of(
    permits: Permits, *, most: int = 2, without: RateLimit | None = None
) -> SharedLimiter:
    """Return a limiter that takes at most so many permits at once."""
    return SharedLimiter(permits, most, without, clock=now)


async def come(limiter: SharedLimiter, number: int, passed: list[tuple[int, float]]) -> None:
    await limiter.enter()
    passed.append((number, now()))


def passing(
    count: int, disturb: Callable[[list[asyncio.Task[None]]], None] | None = None, *, most: int = 2
) -> tuple[list[tuple[int, float]], Permits]:
    """Let callers come at once; return when each passed."""
    permits = Permits()
    passed: list[tuple[int, float]] = []

    async def scenario() -> None:
        limiter = limiter_of(permits, most=most)
        tasks = [asyncio.create_task(come(limiter, number, passed)) for number in range(count)]
        await asyncio.sleep(0)
        if disturb:
            disturb(tasks)
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(10)
        await limiter.aclose()

    run(scenario())
    return passed, permits


def test_callers_pass_in_their_order_with_a_few_permits_at_a_time() -> None:
    """No more permits are taken than callers wait."""
    passed, permits = passing(5)

    assert passed == [(0, 2), (1, 2), (2, 4), (3, 4), (4, 5)]
    assert permits.taken == [(2, 2), (4, 2), (5, 1)]
    assert permits.closed


def test_a_cancelled_caller_keeps_nothing() -> None:
    """Its permit goes to the next one."""

    def disturb(tasks: list[asyncio.Task[None]]) -> None:
        tasks[0].cancel()
        tasks[2].cancel()

    passed, _ = passing(5, disturb)

    assert passed == [(1, 2), (3, 2), (4, 3)]


def test_a_caller_that_is_cancelled_with_its_permit_passes_it_on() -> None:
    """In the same turn of the loop the permit came, and then the cancellation."""
    passed: list[tuple[int, float]] = []

    async def scenario() -> None:
        permits = Permits()
        limiter = limiter_of(permits, most=1)
        first = asyncio.create_task(come(limiter, 0, passed))
        second = asyncio.create_task(come(limiter, 1, passed))
        permits.at_last = lambda: asyncio.get_running_loop().call_soon(first.cancel)
        await asyncio.wait([first, second])
        assert first.cancelled()
        await limiter.aclose()

    run(scenario())

    assert passed == [(1, 1)]


@pytest.mark.parametrize("error", [None, ConfigurationError("refused")])
def test_a_caller_that_was_cancelled_just_before_gets_nothing(error: Exception | None) -> None:
    """In the same turn of the loop the cancellation came, and then the permit or a refusal."""
    passed: list[tuple[int, float]] = []

    async def scenario() -> None:
        permits = Permits()
        permits.error = error
        limiter = limiter_of(permits, most=1)
        first = asyncio.create_task(come(limiter, 0, passed))
        second = asyncio.create_task(come(limiter, 1, passed))
        permits.at_last = first.cancel
        await asyncio.wait([first, second])
        assert first.cancelled()
        assert second.exception() is None or error
        await limiter.aclose()

    run(scenario())

    assert passed == ([] if error else [(1, 1)])


def test_permits_for_callers_that_left_are_lost() -> None:
    """Rather fewer requests than more."""

    def disturb(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:  # while their permits are on their way
            asyncio.get_running_loop().call_later(1, task.cancel)

    passed, permits = passing(2, disturb)

    assert passed == []
    assert permits.taken == [(2, 2)]


def test_nothing_passes_while_redis_does_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    """The requests wait, are logged once, and pass in their order when it answers again."""
    passed: list[tuple[int, float]] = []

    async def scenario() -> None:
        permits = Permits()
        permits.answers = False
        limiter = limiter_of(permits)
        tasks = [asyncio.create_task(come(limiter, number, passed)) for number in range(3)]
        await asyncio.sleep(60)
        assert passed == []
        tasks[1].cancel()
        permits.answers = True
        await asyncio.wait(tasks)
        await limiter.aclose()

    run(scenario())

    assert [number for number, _ in passed] == [0, 2]
    assert [record.getMessage() for record in caplog.records] == [
        "the Redis of the shared rate limit does not answer: requests wait",
        "the Redis of the shared rate limit answers again",
    ]


def test_a_limit_without_redis_holds_until_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    """Each process sends at a rate of its own meanwhile."""
    passed: list[tuple[int, float]] = []

    async def scenario() -> None:
        permits = Permits()
        permits.answers = False
        limiter = limiter_of(permits, without=RateLimit(1, seconds=10))
        tasks = [asyncio.create_task(come(limiter, number, passed)) for number in range(6)]
        await asyncio.sleep(25)
        permits.answers = True
        await asyncio.wait(tasks)
        await limiter.aclose()

    run(scenario())

    assert passed[:4] == [(0, 0), (1, 10), (2, 20), (3, 30)]
    assert [number for number, _ in passed] == [0, 1, 2, 3, 4, 5]
    assert "RateLimit(requests=1, seconds=10" in caplog.text


def test_callers_who_left_during_an_outage_are_not_waited_for() -> None:
    """The task that asks for permits ends with the last caller."""

    async def scenario() -> None:
        permits = Permits()
        permits.answers = False
        limiter = limiter_of(permits)
        task = asyncio.create_task(limiter.enter())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(10)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert "0 waiting" in repr(limiter)

    run(scenario())


def test_a_refusal_reaches_every_caller_and_those_that_come_later_ask_again() -> None:
    """A wrong password is no outage."""

    async def scenario() -> None:
        permits = Permits()
        permits.error = ConfigurationError("refused")
        limiter = limiter_of(permits)
        tasks = [asyncio.create_task(limiter.enter()) for _ in range(3)]
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(2, tasks[1].cancel)
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        kinds = [type(end) for end in ended]
        assert kinds == [ConfigurationError, asyncio.CancelledError, ConfigurationError]
        assert ended[0] is not ended[2]

        permits.error = None
        await limiter.enter()
        await limiter.aclose()

    run(scenario())


def test_closing_ends_what_asks_for_permits() -> None:
    """A session closes after its calls have ended, or were cut."""

    async def scenario() -> None:
        permits = Permits()
        limiter = limiter_of(permits)
        task = asyncio.create_task(limiter.enter())
        await asyncio.sleep(0)
        await limiter.aclose()
        assert permits.closed
        task.cancel()
        await asyncio.wait([task])

    run(scenario())
