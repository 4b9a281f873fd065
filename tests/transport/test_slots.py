"""The slots: bounded, fair, none lost when callers are cancelled."""

import asyncio
import time

from hypothesis import given, strategies as st

from gateway_sdk._transport.pool import Admission
from gateway_sdk._transport.transmission import Transmission


class Gate(Admission):
    """Admission without a rate limit."""

    async def pass_in(self, seconds: float | None = None) -> None:
        await self.enter(seconds, Transmission(sent=False))


async def test_a_free_gate_is_passed_without_waiting() -> None:
    """Entering a free gate takes a slot and never suspends."""
    gate = Gate(1)

    coroutine = gate.pass_in()
    try:
        coroutine.send(None)
    except StopIteration:
        pass
    else:
        raise AssertionError

    assert (gate.free, gate.waiting) == (0, 0)


async def test_waiters_are_let_in_first_come_first_served() -> None:
    gate = Gate(1)
    order: list[int] = []

    async def pass_through(number: int) -> None:
        await gate.pass_in()
        order.append(number)
        gate.leave()

    await gate.pass_in()
    tasks = [asyncio.create_task(pass_through(number)) for number in range(5)]
    await asyncio.sleep(0)
    assert (gate.free, gate.waiting) == (0, 5)
    gate.leave()
    await asyncio.gather(*tasks)

    assert order == [0, 1, 2, 3, 4]
    assert gate.free == 1


async def test_a_slot_that_comes_in_the_turn_of_the_time_out_is_taken() -> None:
    """It is not lost, and the time-out is none."""
    gate, loop = Gate(1), asyncio.get_running_loop()
    await gate.pass_in()
    waiting = asyncio.create_task(gate.pass_in(0.005))
    await asyncio.sleep(0)

    loop.call_later(0.002, gate.leave)  # in the turn of the timer, and before it
    until = time.monotonic() + 0.02
    while time.monotonic() < until:
        pass
    await waiting

    assert gate.free == 0


async def test_a_slot_handed_to_a_caller_being_cancelled_is_passed_on() -> None:
    gate = Gate(1)
    await gate.pass_in()
    waiting = asyncio.create_task(gate.pass_in())
    await asyncio.sleep(0)

    gate.leave()  # the slot is the waiter's now, but its task has not run yet
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert waiting.cancelled()
    assert gate.free == 1


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=30),
)
def test_every_slot_comes_back(size: int, callers: list[tuple[int, bool]]) -> None:
    """However callers come, hold on and are cancelled, the gate is free again in the end."""

    async def scenario() -> None:
        gate = Gate(size)
        inside = most = 0

        async def caller(turns: int) -> None:
            nonlocal inside, most
            await gate.pass_in()
            inside += 1
            most = max(most, inside)
            try:
                for _ in range(turns):
                    await asyncio.sleep(0)
            finally:
                inside -= 1
                gate.leave()

        tasks: list[asyncio.Task[None]] = []
        for turns, cancelled in callers:
            tasks.append(asyncio.create_task(caller(turns)))
            await asyncio.sleep(0)
            if cancelled:
                tasks[len(tasks) // 2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

        assert most <= size
        assert gate.free == size

    asyncio.run(scenario())
