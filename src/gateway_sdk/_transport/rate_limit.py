"""A limit of the rate of requests: so many in a time."""

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
    """Lets requests pass, first come, first served."""

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
        """Give back what the limiter holds; nothing waits in it any more."""


class Limit(ABC):
    """A limit that a session can keep: `RateLimit`, or `SharedRateLimit` of a fleet."""

    __slots__ = ()

    @abstractmethod
    def make_limiter(self) -> Limiter:
        """Return what keeps the limit for one session; it starts nothing."""


@dataclass(frozen=True, slots=True)
class RateLimit(Limit):
    """So many requests begin in any stretch of so many seconds, and never more.

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
        """Return what keeps this limit for one session."""
        return RateLimiter(self)


class RateLimiter(Limiter):
    """Lets requests pass as its limit allows; first come, first served.

    A waiting caller that is cancelled keeps nothing, and no newcomer overtakes those who wait.
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
            elif not waiter.cancelled():  # it was let through in the same turn: let the next one
                with suppress(ValueError):  # its time may have passed meanwhile
                    self._passed.remove(waiter.result())
                self._let_through(loop)
            raise

    def _has_room(self, now: float) -> bool:
        # Added up as for the timer, which rounding would else let come too early for ever.
        while self._passed and self._passed[0] + self._limit.seconds <= now:
            self._passed.popleft()
        return len(self._passed) < self._limit.requests

    def _let_through(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let through whom the limit allows, and look again when it allows the next one."""
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
