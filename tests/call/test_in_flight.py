import asyncio

import pytest

from gateway_sdk._call.in_flight import CallsInFlight
from tests.support.virtual_time import now, run


async def call(calls: CallsInFlight, deadline: float | None, lasts: float) -> float | None:
    """Be a call that lasts so long; return when it was ended, or None if it ended by itself."""
    scope = calls.begin(deadline)
    try:
        async with scope:
            await asyncio.sleep(lasts)
    except TimeoutError:
        return now()
    finally:
        calls.end(scope)
    return None


def test_each_call_ends_by_its_own_deadline() -> None:
    """Calls that begin one after the other end one after the other."""

    async def work() -> list[float | None]:
        calls, tasks = CallsInFlight(), []
        for number in range(5):
            # Every other one ends long before, and must not end the others' time.
            lasts = 1.0 if number % 2 else 1000.0
            tasks.append(asyncio.create_task(call(calls, 10.0, lasts)))
            await asyncio.sleep(3)
        return await asyncio.gather(*tasks)

    assert run(work()) == [10.0, None, 16.0, None, 22.0]


def test_a_deadline_that_comes_while_a_call_is_cut_changes_nothing() -> None:
    """A call that tidies up beyond its deadline was cut, and is cut once."""

    async def tidy_up(calls: CallsInFlight, scope: asyncio.Timeout) -> None:
        async with scope:
            asyncio.get_running_loop().call_at(9.0, calls.cut)
            try:
                await asyncio.sleep(1000)
            finally:
                assert now() == 9.0
                await asyncio.sleep(5)

    async def work() -> None:
        broken: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda *what: broken.append(what))
        calls = CallsInFlight()
        scope = calls.begin(10.0)
        with pytest.raises(TimeoutError):
            await tidy_up(calls, scope)
        assert now() == 14.0
        assert not broken
        assert calls.was_cut(scope)
        assert len(calls) == 1
        calls.end(scope)
        assert len(calls) == 0

    run(work())
