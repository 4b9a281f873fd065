import asyncio
import gc
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gateway_sdk import LoginError
from gateway_sdk.auth._login_coordination import SingleFlight


class Work:
    """Work that ends when a test says so, and cleans up when a test says so."""

    def __init__(self) -> None:
        self.began = 0
        self.cancelled = 0
        self.running = 0
        self.at_once = 0
        self.may_end = asyncio.Event()
        self.may_clean_up = asyncio.Event()
        self.may_clean_up.set()
        self.error: Exception | None = None

    async def __call__(self) -> int:
        """Return how often the work has begun."""
        self.began += 1
        self.running += 1
        self.at_once = max(self.at_once, self.running)
        number = self.began
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            await self.may_clean_up.wait()
            raise
        finally:
            self.running -= 1
        if self.error:
            raise self.error
        return number


async def turns(count: int = 5) -> None:
    """Let every task run for a few turns of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_all_who_ask_while_it_runs_share_one_result() -> None:
    """The work runs once for all callers that join while it runs, and again for later callers."""
    work = Work()
    flight = SingleFlight(work)
    callers = [asyncio.create_task(flight.join()) for _ in range(100)]
    await turns()
    work.may_end.set()

    assert await asyncio.gather(*callers) == [1] * 100
    assert await flight.join() == 2


async def test_an_error_is_raised_to_all() -> None:
    """Every caller that waits gets the error of the work."""
    work = Work()
    work.error = LookupError("gone")
    work.may_end.set()
    flight = SingleFlight(work)

    raised = await asyncio.gather(*(flight.join() for _ in range(10)), return_exceptions=True)

    assert raised == [work.error] * 10
    assert work.began == 1


async def test_the_first_caller_may_be_cancelled() -> None:
    """The work goes on without the caller that started it: the others get its result."""
    work = Work()
    flight = SingleFlight(work)
    first, *others = [asyncio.create_task(flight.join()) for _ in range(5)]
    await turns()

    first.cancel()
    await turns()
    work.may_end.set()

    assert await asyncio.gather(*others) == [1] * 4
    assert first.cancelled()
    assert work.cancelled == 0


async def test_the_work_goes_on_without_callers() -> None:
    """When no caller waits any more, the work goes on, and the next caller gets its result."""
    work = Work()
    flight = SingleFlight(work)
    callers = [asyncio.create_task(flight.join()) for _ in range(5)]
    await turns()

    for caller in callers:
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    assert all(caller.cancelled() for caller in callers)
    newcomer = asyncio.create_task(flight.join())
    await turns()
    work.may_end.set()

    assert await newcomer == 1
    assert (work.began, work.cancelled) == (1, 0)


async def test_work_can_be_ended() -> None:
    """`end` waits for the cleaning up; callers that wait, or join meanwhile, get an error."""
    work = Work()
    work.may_clean_up.clear()
    flight = SingleFlight(work)
    await flight.end()
    waiting = asyncio.create_task(flight.join())
    await turns()
    ending = asyncio.create_task(flight.end())
    await turns()
    newcomer = asyncio.create_task(flight.join())
    await turns()
    assert work.cancelled == 1
    assert [task.done() for task in (ending, waiting, newcomer)] == [False] * 3

    work.may_clean_up.set()
    ends = await asyncio.gather(waiting, newcomer, ending, return_exceptions=True)

    assert [(type(end), str(end)) for end in ends[:2]] == [(LoginError, "the login was ended")] * 2
    assert ends[2] is None
    assert work.began == work.at_once == 1


async def test_a_time_out_of_one_caller_does_not_affect_others() -> None:
    """A caller that times out gets its TimeoutError, and the others get the result."""
    work = Work()
    flight = SingleFlight(work)
    others = [asyncio.create_task(flight.join()) for _ in range(3)]

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await flight.join()
    work.may_end.set()

    assert await asyncio.gather(*others) == [1] * 3


async def test_an_error_without_callers_is_not_reported() -> None:
    """If the work fails when no caller waits, asyncio reports nothing."""
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
    begun = asyncio.Event()

    async def fails() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            raise LookupError

    flight = SingleFlight(fails)
    caller = asyncio.create_task(flight.join())
    await begun.wait()
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    await flight.end()
    assert caller.cancelled()
    del caller  # its traceback keeps the work alive
    await asyncio.sleep(0)  # so does the turn of the event loop that reported its end
    gc.collect()

    assert reports == []


def test_event_loops_may_follow_each_other() -> None:
    """A closed event loop leaves nothing for the next one."""

    async def work() -> asyncio.AbstractEventLoop:
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    async def ask() -> bool:
        return await flight.join() is asyncio.get_running_loop()

    flight = SingleFlight(work)

    assert [asyncio.run(ask()) for _ in range(3)] == [True] * 3


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 30)), min_size=1, max_size=20
    )
)
def test_no_work_is_left_after_random_cancellations(
    callers: list[tuple[int, bool, int]],
) -> None:
    """Callers that are not cancelled get a result, and no two runs overlap."""

    async def scenario() -> None:
        running = most = 0

        async def work() -> str:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                await turns(4)
            finally:
                await turns(2)
                running -= 1
            return "done"

        flight = SingleFlight(work)
        tasks: list[asyncio.Task[str]] = []
        cancelled: set[asyncio.Task[str]] = set()
        for pause, cancels, which in callers:
            tasks.append(asyncio.create_task(flight.join()))
            await turns(pause)
            victim = tasks[which % len(tasks)]
            if cancels and victim.cancel():
                cancelled.add(victim)
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await turns(20)  # the work of the cancelled callers has ended

        for task, result in zip(tasks, results, strict=True):
            assert result == "done" or task in cancelled
        assert most <= 1
        assert running == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
