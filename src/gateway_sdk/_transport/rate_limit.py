"""A limit of the rate of requests: a number of requests in a number of seconds."""

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass

from gateway_sdk._config import check_count, check_seconds
from gateway_sdk._python import safe_repr
from gateway_sdk._transport.transmission import Transmission
from gateway_sdk.errors import ConfigurationError


class Limiter(ABC):
    """Lets requests pass in the order of their arrival."""

    @abstractmethod
    async def enter(self) -> None:
        """Pass, now or when it is this caller's turn."""

    async def admit(self, transmission: Transmission) -> None:
        """Pass as with `enter`, and note how long the request waited."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await self.enter()
        finally:
            transmission.rate_wait = loop.time() - began

    async def aclose(self) -> None:  # noqa: B027 - a limit of one process holds nothing
        """Release what the limiter holds; called when no request waits any more."""


class AnyRateLimit(ABC):
    """A limit for a session: `RateLimit`, or `SharedRateLimit` of a fleet."""

    __slots__ = ()

    @abstractmethod
    def make_limiter(self) -> Limiter:
        """Return the limiter of one session; this starts nothing."""


@dataclass(frozen=True, slots=True)
class RateLimit(AnyRateLimit):
    """At most *requests* requests begin in any period of *seconds* seconds.

    A request that has to open a connection arrives later by that time, perhaps together with the
    next ones.

    Raises:
        ConfigurationError: a number is out of its range.
    """

    requests: int
    seconds: float = 1.0

    def __post_init__(self) -> None:
        check_count("requests", self.requests)
        if check_seconds("seconds", self.seconds) is None:
            raise ConfigurationError("seconds must be a number of seconds")

    def make_limiter(self) -> Limiter:
        """Return the limiter of one session."""
        return RateLimiter(self)


class RateLimiter(Limiter):
    """Lets requests pass as its limit allows, in the order of their arrival.

    A caller that is cancelled while it waits takes no turn.
    """

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._passed: deque[float] = deque()  # when, oldest first, of the last `seconds`
        self._waiters: OrderedDict[asyncio.Future[float], None] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self) -> None:
        """Pass, now or when it is this caller's turn."""
        loop = asyncio.get_running_loop()
        if not self._waiters and self._has_room(loop.time()):
            self._passed.append(loop.time())
            return
        waiter: asyncio.Future[float] = loop.create_future()
        self._waiters[waiter] = None
        self._set_timer(loop)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter in self._waiters:
                del self._waiters[waiter]
            elif (
                not waiter.cancelled()
            ):  # it got its turn in the same step: give it to the next one
                with suppress(ValueError):  # its entry may have been dropped meanwhile
                    self._passed.remove(waiter.result())
                self._let_through(loop)
            raise

    def _has_room(self, now: float) -> bool:
        # The same sum as for the timer: a difference would be rounded in another way, and the timer
        # could be early each time, without end.
        while self._passed and self._passed[0] + self._limit.seconds <= now:
            self._passed.popleft()
        return len(self._passed) < self._limit.requests

    def _let_through(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the callers pass that the limit allows, and set the timer for the next one."""
        now = loop.time()
        while self._waiters and self._has_room(now):
            waiter, _ = self._waiters.popitem(last=False)
            if not waiter.done():  # else cancelled, and its task has not run yet
                self._passed.append(now)
                waiter.set_result(now)
        self._set_timer(loop)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiters:
            at = self._passed[0] + self._limit.seconds
            self._timer = loop.call_at(at, self._let_through, loop)

    @safe_repr
    def __repr__(self) -> str:
        return f"<RateLimiter {self._limit}, {len(self._waiters)} waiting>"
