"""Callers that wait for their turn, in the order of their arrival."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable


class FairQueue:
    """Keeps no turn for a caller that is cancelled meanwhile: *give_back* passes it on."""

    def __init__(self, give_back: Callable[[], object]) -> None:
        self._give_back = give_back
        self.waiters: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    def join(self) -> asyncio.Future[None]:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiters[waiter] = None
        return waiter

    async def turn(self, waiter: asyncio.Future[None], seconds: float | None = None) -> None:
        """Wait for the turn of this caller; TimeoutError if it takes longer."""
        # asyncio.timeout would cancel the task, which somebody else may do in the same turn.
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, self._give_up, waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self.waiters:
                del self.waiters[waiter]
            elif not (waiter.cancelled() or waiter.exception()):
                self._give_back()  # its turn came in the same turn of the event loop
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _give_up(self, waiter: asyncio.Future[None]) -> None:
        if not waiter.done():
            del self.waiters[waiter]
            waiter.set_exception(TimeoutError())

    def let_pass(self) -> bool:
        """Give a turn to the caller that waits longest; False if none waits."""
        while self.waiters:
            waiter, _ = self.waiters.popitem(last=False)
            if not waiter.done():  # else cancelled, and its task has not run yet
                waiter.set_result(None)
                return True
        return False
