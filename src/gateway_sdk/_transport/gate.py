"""The gate in front of the connections: first come, first served."""

import asyncio
from collections import OrderedDict

from gateway_sdk._repr import safe_repr


class Gate:
    """Let so many callers in at once; the others wait in the order in which they came.

    A caller that is cancelled while it waits keeps nothing.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.free = size
        self._waiters: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    async def enter(self) -> None:
        """Take a slot, now or when one comes free."""
        if self.free:  # then nobody waits: `leave` hands slots over while anybody does
            self.free -= 1
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = None
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiters:
                del self._waiters[waiter]
            elif not waiter.cancelled():
                self.leave()  # the slot was handed over in the same turn: pass it on
            raise

    def leave(self) -> None:
        """Give the slot back, to the longest waiting caller if there is one."""
        while self._waiters:
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.done():  # else cancelled, and its task has not run yet
                waiter.set_result(None)
                return
        self.free += 1

    @safe_repr
    def __repr__(self) -> str:
        return f"<Gate {self.size - self.free} of {self.size} taken, {len(self._waiters)} waiting>"
