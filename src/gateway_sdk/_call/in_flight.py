"""The calls under way: each ends by its deadline, and all can be waited for, or cut."""

import asyncio
from contextlib import suppress
from typing import Final

_LONG_PAST: Final = 0.0


class CallsUnderWay:
    """Bounds calls by their deadlines and by the closing of their session.

    Those with the usual deadline end in the order in which they began, so that one timer, for the
    first of them, serves all; a timer for each would cost it 5 µs, and there are hardly any others.
    """

    def __init__(self, usual: float | None) -> None:
        self._usual = usual  # seconds
        self._scopes: set[asyncio.Timeout] = set()
        self._ends: dict[asyncio.Timeout, float] = {}  # of those with the usual one, in their order
        self._timer: asyncio.TimerHandle | None = None
        self._cut: set[asyncio.Timeout] = set()
        self._quiet = asyncio.Event()  # no call is under way
        self._drained = asyncio.Event()  # the same, or all are cut

    def begin(self, deadline: float | None) -> asyncio.Timeout:
        """Count a call, and return the scope in which it has to run, to be entered at once."""
        scope = asyncio.timeout(None if deadline == self._usual else deadline)
        self._scopes.add(scope)
        self._quiet.clear()
        self._drained.clear()
        if deadline is not None and deadline == self._usual:
            loop = asyncio.get_running_loop()
            self._ends[scope] = end = loop.time() + deadline
            if self._timer is None:
                self._timer = loop.call_at(end, self._expire)
        return scope

    def end(self, scope: asyncio.Timeout) -> None:
        """Count a call as ended."""
        self._scopes.discard(scope)
        self._ends.pop(scope, None)
        if not self._scopes:
            self._quiet.set()
            self._drained.set()

    def end_of(self, scope: asyncio.Timeout) -> float | None:
        """Return when a call has to end, by the event loop's clock; None for never."""
        return self._ends.get(scope, scope.when())

    def _expire(self) -> None:
        """End the calls whose time is over, and look again when that of the next one is."""
        loop = asyncio.get_running_loop()
        self._timer = None
        for scope, end in self._ends.items():
            if end > loop.time():
                self._timer = loop.call_at(end, self._expire)
                return
            if not scope.expired():  # else it tidies up
                scope.reschedule(end)

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
        """Wait until no call is under way or all are cut, but no longer than this."""
        await self._wait(self._drained, seconds)

    async def wait(self, seconds: float) -> None:
        """Wait until no call is under way, but no longer than this."""
        await self._wait(self._quiet, seconds)

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        if self._scopes:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()

    def forget(self) -> None:
        """Leave nothing behind in the event loop."""
        if self._timer is not None:
            self._timer.cancel()

    def __len__(self) -> int:
        return len(self._scopes)
