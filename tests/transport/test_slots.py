"""The slots: bounded, fair; none is lost, and none is given back twice."""

import asyncio
from typing import Final

from hypothesis import given, settings, strategies as st

from gateway_sdk._transport.engine import Slots
from gateway_sdk._transport.transmission import Transmission
from tests.support.failing_steps import turns


class Caller:
    def __init__(self, slots: Slots, seconds: float | None, entered: list["Caller"]) -> None:
        self._slots, self._seconds, self._entered = slots, seconds, entered
        self.may_end = asyncio.Event()
        self.is_inside = False
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        if not self._slots.take():
            await self._slots.wait(self._seconds, Transmission())
        self.is_inside = True
        self._entered.append(self)
        try:
            await self.may_end.wait()
        finally:
            self.is_inside = False
            self._slots.give_back()


# A caller comes, one comes whose time is over in the next turn, one ends, one is cancelled.
STEPS: Final = st.sampled_from(["come", "hurry", "end", "cancel"])
TURNS: Final = st.integers(0, 2)
"""Turns of the event loop behind a step."""


@settings(max_examples=500)
@given(
    st.integers(1, 2), st.lists(st.tuples(STEPS, st.integers(0, 3), TURNS), min_size=6, max_size=30)
)
def test_every_slot_comes_back_once(size: int, steps: list[tuple[str, int, int]]) -> None:
    """In any order, also in one turn of the event loop; to one slot callers come in their order."""

    async def scenario() -> None:
        slots, callers, entered = Slots(size), list[Caller](), list[Caller]()
        for step, number, more in steps:
            if step in ("come", "hurry"):
                seconds = None if step == "come" else 0.0
                callers.append(Caller(slots, seconds, entered))
            elif number < len(callers):
                caller = callers[-1 - number]
                caller.may_end.set() if step == "end" else caller.task.cancel()
            await turns(more)
            assert sum(one.is_inside for one in callers) <= size - slots.free <= size
        await turns(3 * len(callers))  # a slot may pass through all of them
        assert sum(one.is_inside for one in callers) == size - slots.free
        for one in callers:
            one.may_end.set()
        await asyncio.gather(*(one.task for one in callers), return_exceptions=True)

        assert (slots.free, len(slots.waiters)) == (size, 0)
        assert size > 1 or entered == [one for one in callers if one in entered]

    asyncio.run(scenario())
