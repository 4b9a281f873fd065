"""The slots: bounded, fair, none lost when callers are cancelled."""

import asyncio
import time

from hypothesis import given, strategies as st

from gateway_sdk._transport.engine import Slots
from gateway_sdk._transport.transmission import Transmission


class Gate(Slots):
    async def pass_in(self, seconds: float | None = None) -> None:
        if not self.take():
            await self.wait(seconds, Transmission())


async def test_a_slot_that_comes_in_the_turn_of_the_time_out_is_taken() -> None:
    gate, loop = Gate(1), asyncio.get_running_loop()
    await gate.pass_in()
    waiting = asyncio.create_task(gate.pass_in(0.005))
    await asyncio.sleep(0)

    loop.call_later(0.002, gate.give_back)  # in the turn of the timer, and before it
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

    gate.give_back()  # the slot is the waiter's now, but its task has not run yet
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)

    assert waiting.cancelled()
    assert gate.free == 1


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=30),
)
def test_every_slot_comes_back(size: int, callers: list[tuple[int, bool]]) -> None:
    """However callers come, hold on and are cancelled; to one slot they come in their order."""

    async def scenario() -> None:
        gate, order = Gate(size), list[int]()
        inside = most = 0

        async def caller(number: int, turns: int) -> None:
            nonlocal inside, most
            await gate.pass_in()
            order.append(number)
            inside += 1
            most = max(most, inside)
            try:
                for _ in range(turns):
                    await asyncio.sleep(0)
            finally:
                inside -= 1
                gate.give_back()

        tasks: list[asyncio.Task[None]] = []
        for number, (turns, cancelled) in enumerate(callers):
            tasks.append(asyncio.create_task(caller(number, turns)))
            await asyncio.sleep(0)
            if cancelled:
                tasks[len(tasks) // 2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

        assert order == sorted(order) or size > 1
        assert most <= size
        assert (gate.free, len(gate.waiters)) == (size, 0)

    asyncio.run(scenario())
