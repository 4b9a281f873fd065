import asyncio
import time
from typing import Any

import pytest

from gateway_sdk import Outcome
from gateway_sdk._call.deadline import CallScope, CallsInFlight
from gateway_sdk.errors import DeadlineExceededError, SessionStateError
from tests.support.failing_server import FailingServer
from tests.support.failing_steps import serve
from tests.support.truth import open_session
from tests.support.virtual_time import in_virtual_time, now, run
from tests.support.witness import Witness


async def call(calls: CallsInFlight, deadline: float | None, lasts: float) -> float | None:
    try:
        with CallScope(calls, deadline):
            await asyncio.sleep(lasts)
    except DeadlineExceededError:
        return now()
    return None


@pytest.mark.parametrize("deadlines", [(10.0, 10.0, 10.0), (30.0, 20.0, 5.0), (5.0, None, 10.0)])
def test_each_call_ends_by_its_own_deadline(deadlines: tuple[float | None, ...]) -> None:
    async def work() -> list[float | None]:
        calls, tasks = CallsInFlight(), []
        for deadline in deadlines:
            tasks.append(asyncio.create_task(call(calls, deadline, 1000.0)))
            # This one ends long before, and must not end the others' time.
            tasks.append(asyncio.create_task(call(calls, deadline, 1.0)))
            await asyncio.sleep(3)
        return await asyncio.gather(*tasks)

    assert run(work())[::2] == [
        None if deadline is None else number * 3 + deadline
        for number, deadline in enumerate(deadlines)
    ]
    assert run(work())[1::2] == [None, None, None]


@in_virtual_time
async def test_no_timer_is_left_when_all_calls_are_cut() -> None:
    calls = CallsInFlight()
    task = asyncio.create_task(call(calls, 10.0, 1000.0))
    await asyncio.sleep(1)
    calls.cut()
    with pytest.raises(SessionStateError, match="closed before the reply"):
        await task
    scheduled: Any = asyncio.get_running_loop()
    assert not [timer for timer in scheduled._scheduled if not timer.cancelled()]


@in_virtual_time
async def test_a_deadline_that_comes_while_a_call_is_cut_changes_nothing() -> None:
    """A call that tidies up beyond its deadline was cut, and is cut once."""

    async def tidy_up(calls: CallsInFlight) -> None:
        with CallScope(calls, 10.0) as scope:
            asyncio.get_running_loop().call_at(9.0, calls.cut)
            asyncio.get_running_loop().call_at(10.0, scope.end)
            try:
                await asyncio.sleep(1000)
            finally:
                assert now() == 9.0
                await asyncio.sleep(5)

    broken: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda *what: broken.append(what))
    calls = CallsInFlight()
    with pytest.raises(SessionStateError):
        await tidy_up(calls)
    assert now() == 14.0
    assert not broken
    assert not calls.scopes


@in_virtual_time
async def test_a_cancellation_beside_the_deadline_is_not_taken_for_it() -> None:
    calls = CallsInFlight()
    task = asyncio.create_task(call(calls, 10.0, 1000.0))
    asyncio.get_running_loop().call_at(10.0, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not calls.scopes


async def test_nothing_is_sent_after_a_deadline_that_passed_unseen() -> None:
    """The event loop was busy, so that the call did not end in time; it does before it is sent."""
    witness, seconds = Witness(), [0.0]

    async def token() -> str:
        time.sleep(seconds[0])  # noqa: ASYNC251 - code that holds the event loop
        return "t"

    async with (
        FailingServer(serve) as server,
        open_session(server.url, witness, access_token=token, deadline=0.4) as gateway,
    ):
        # Its timer is due before that of the next call.
        await witness.call(gateway, "order_history", "1")
        seconds[0] = 0.5
        record = await witness.call(gateway, "create_customer", "2")

    assert isinstance(record.error, DeadlineExceededError)
    assert record.outcome is Outcome.NOT_SENT
    assert not server.of("2")
