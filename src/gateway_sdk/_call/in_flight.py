"""The calls in flight: each ends by its deadline, and all can be waited for, or cut."""

import asyncio
from contextlib import suppress
from typing import Final

_LONG_PAST: Final = 0.0


class CallsInFlight:
    """Bounds calls by their deadlines and by the closing of their session."""

    def __init__(self) -> None:
        self._scopes: set[asyncio.Timeout] = set()
        self._cut: set[asyncio.Timeout] = set()
        self._quiet = asyncio.Event()  # no call is in flight
        self._drained = asyncio.Event()  # the same, or all are cut

    def begin(self, deadline: float | None) -> asyncio.Timeout:
        """Count a call, and return the scope in which it has to run, to be entered at once."""
        scope = asyncio.timeout(deadline)
        self._scopes.add(scope)
        self._quiet.clear()
        self._drained.clear()
        return scope

    def end(self, scope: asyncio.Timeout) -> None:
        """Count a call as ended."""
        self._scopes.discard(scope)
        if not self._scopes:
            self._quiet.set()
            self._drained.set()

    def cut(self) -> None:
        """End all calls at once, and what drains them too."""
        left = {scope for scope in self._scopes if not scope.expired()}
        self._cut |= left
        for scope in left:
            scope.reschedule(_LONG_PAST)
        self._drained.set()

    def was_cut(self, scope: asyncio.Timeout) -> bool:
        """Tell whether a call was cut, and did not come to its own deadline."""
        return scope in self._cut

    async def drain(self, seconds: float) -> None:
        """Wait until no call is in flight or all are cut, but no longer than this."""
        await self._wait(self._drained, seconds)

    async def wait(self, seconds: float) -> None:
        """Wait until no call is in flight, but no longer than this."""
        await self._wait(self._quiet, seconds)

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        if self._scopes:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()

    def __len__(self) -> int:
        return len(self._scopes)
