"""What all chunks of a process share: the number of calls at once, and the wait for a login."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary

from gateway_sdk.bulk._limit import Limit, Ticket

_logger = logging.getLogger("gateway_sdk")

_FIRST_WAIT: Final = 1.0
_LONGEST_WAIT: Final = 60.0
"""Seconds between two looks for a token; they double. A login is noticed within a minute."""


class SharedLimit(Limit):
    """One number of calls for several runs: each is woken when another makes room."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._wakes: list[Callable[[], None]] = []

    @property
    def size(self) -> int:
        return self._limit.size

    def has_room(self, waiting: int) -> bool:
        return self._limit.has_room(waiting)

    def begin(self, wake: Callable[[], None]) -> Ticket:
        del wake  # its run has joined
        return self._limit.begin(self._wake_all)

    def join(self, wake: Callable[[], None]) -> None:
        self._wakes.append(wake)

    def leave(self, wake: Callable[[], None]) -> None:
        self._wakes.remove(wake)

    def _wake_all(self) -> None:
        for wake in self._wakes:
            wake()


class LoginWait:
    """Lets all calls that lack a token wait together, and try again together."""

    def __init__(self) -> None:
        self._wait = _FIRST_WAIT
        self._nap: asyncio.Task[None] | None = None

    async def nap(self) -> None:
        """Wait until it is time to look for a token again; longer each time, up to a minute."""
        if self._nap is None:
            self._nap = asyncio.create_task(asyncio.sleep(self._wait))
            self._nap.add_done_callback(self._woke)
        # The wait goes on for the others if one call is cancelled.
        await asyncio.shield(self._nap)

    def _woke(self, _: Any) -> None:
        self._nap = None
        self._wait = min(2 * self._wait, _LONGEST_WAIT)

    def has_token(self) -> None:
        if self._wait > _FIRST_WAIT:
            _logger.warning("there is a token again: the plan goes on")
        self._wait = _FIRST_WAIT


class Shared:
    def __init__(self, limit: Limit) -> None:
        self.limit = SharedLimit(limit)
        self.login = LoginWait()


class PerLoop:
    """Makes one `Shared` for each event loop, of which some engines make one for each chunk."""

    def __init__(self, make_limit: Callable[[], Limit]) -> None:
        self._make_limit = make_limit
        self._known: WeakKeyDictionary[asyncio.AbstractEventLoop, Shared] = WeakKeyDictionary()

    def get(self) -> Shared:
        loop = asyncio.get_running_loop()
        if loop not in self._known:
            self._known[loop] = Shared(self._make_limit())
        return self._known[loop]
