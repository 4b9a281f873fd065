"""One piece of work for any number of callers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Flight(Generic[T]):
    task: asyncio.Task[T]
    waiters: int = 0


class SingleFlight(Generic[T]):
    """Runs a coroutine function once for all who ask while it runs, in each event loop.

    It survives the cancellation of whoever asked first, and ends with whoever waits last: that
    caller waits until it has cleaned up.
    """

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._flights: dict[asyncio.AbstractEventLoop, _Flight[T]] = {}

    async def join(self) -> T:
        """Return what the work under way returns, or raise what it raises; begin it if need be."""
        flight = await self._flight()
        flight.waiters += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters and not flight.task.done():
                flight.task.cancel()
                await asyncio.wait([flight.task])

    async def _flight(self) -> _Flight[T]:
        loop = asyncio.get_running_loop()
        while (flight := self._flights.get(loop)) and not flight.waiters:
            # It is being cancelled, as nobody waits for it any more. What it holds, such as the
            # port of a login, has to come free before the next one begins.
            await asyncio.wait([flight.task])
        if flight is None or flight.task.done():
            flight = self._flights[loop] = _Flight(asyncio.create_task(self._run()))
            flight.task.add_done_callback(lambda _: self._land(loop, flight))
        return flight

    async def _run(self) -> T:
        return await self._work()

    def _land(self, loop: asyncio.AbstractEventLoop, flight: _Flight[T]) -> None:
        if self._flights.get(loop) is flight:
            del self._flights[loop]
        if not flight.task.cancelled():
            flight.task.exception()  # it is told to those who wait, if there is one left
