"""The calls in flight: each has a deadline; closing waits for them, or cuts them."""

import asyncio
from contextlib import suppress
from typing import Final

_LONG_PAST: Final = 0.0


class CallsInFlight:
    """Ends calls at their deadlines and when their session closes."""

    def __init__(self) -> None:
        self._scopes: set[asyncio.Timeout] = set()
        self._cut: set[asyncio.Timeout] = set()
        self._quiet = asyncio.Event()  # no call is in flight
        self._drained = asyncio.Event()  # no call is in flight, or all were cut

    def begin(self, deadline: float | None) -> asyncio.Timeout:
        """Count a call, and return the scope it runs in; the caller enters it at once."""
        scope = asyncio.timeout(deadline)
        self._scopes.add(scope)
        self._quiet.clear()
        self._drained.clear()
        return scope

    def end(self, scope: asyncio.Timeout) -> None:
        """Remove a call that has ended."""
        self._scopes.discard(scope)
        if not self._scopes:
            self._quiet.set()
            self._drained.set()

    def cut(self) -> None:
        """Cut all calls at once, and end every wait for them."""
        left = {scope for scope in self._scopes if not scope.expired()}
        self._cut |= left
        for scope in left:
            scope.reschedule(_LONG_PAST)
        self._drained.set()

    def was_cut(self, scope: asyncio.Timeout) -> bool:
        """Tell whether a call was cut, and not ended by its own deadline."""
        return scope in self._cut

    async def drain(self, seconds: float) -> None:
        """Wait until no call is in flight or all were cut, for this many seconds at most."""
        await self._wait(self._drained, seconds)

    async def wait(self, seconds: float) -> None:
        """Wait until no call is in flight, for this many seconds at most."""
        await self._wait(self._quiet, seconds)

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        if self._scopes:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()

    def __len__(self) -> int:
        return len(self._scopes)
