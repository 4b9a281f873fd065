"""A limit of the rate of requests: a number of requests in a number of seconds."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass

from gateway_sdk._checks import check_count, check_seconds
from gateway_sdk._python import safe_repr
from gateway_sdk._waiting import FairQueue
from gateway_sdk.errors import ConfigurationError


class Limiter(ABC):
    """Decides when a request may be sent; one object may serve several sessions of a loop."""

    @abstractmethod
    async def enter(self) -> None:
        """Wait until a request may be sent; called before each attempt, in order of arrival.

        What it raises ends the call, and nothing is sent.
        """

    def begin(self) -> None:  # noqa: B027 - a limit may count when a request passes
        """Called when the first byte of a request leaves that has passed, or if none will."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most *requests* requests are sent in any period of *seconds* seconds.

    A request counts from when its first byte leaves, after its connection was opened.

    Raises:
        ConfigurationError: a number is out of its range.
    """

    requests: int
    seconds: float = 1.0

    def __post_init__(self) -> None:
        check_count("requests", self.requests)
        if check_seconds("seconds", self.seconds) is None:
            raise ConfigurationError("must be a number of seconds", setting="seconds")


class RateLimiter(Limiter):
    """Keeps a `RateLimit` in one process."""

    # A caller that is cancelled while it waits takes no turn. Between `enter` and `begin` a
    # request has its place in the limit, however long that takes.

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._unsent = 0  # requests that have passed, and have not begun
        self._sent: deque[float] = deque()  # when, oldest first, of the last `seconds`
        self._queue = FairQueue(self._give_back)
        self._timer: asyncio.TimerHandle | None = None

    async def enter(self) -> None:
        """Wait until a request may be sent."""
        loop = asyncio.get_running_loop()
        if not self._queue.waiters and self._has_room(loop.time()):
            self._unsent += 1
            return
        waiter = self._queue.join()
        self._set_timer(loop)
        await self._queue.turn(waiter)

    def _give_back(self) -> None:
        self._unsent -= 1
        self._let_through(asyncio.get_running_loop())

    def begin(self) -> None:
        """Count a request that has passed as sent now."""
        loop = asyncio.get_running_loop()
        self._unsent -= 1
        self._sent.append(loop.time())
        if self._timer is None:
            self._set_timer(loop)

    def _has_room(self, now: float) -> bool:
        # The same sum as for the timer: a difference would be rounded in another way, and the timer
        # could be early each time, without end.
        while self._sent and self._sent[0] + self._limit.seconds <= now:
            self._sent.popleft()
        return self._unsent + len(self._sent) < self._limit.requests

    def _let_through(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the callers pass that the limit allows, and set the timer for the next one."""
        now = loop.time()
        while self._has_room(now) and self._queue.let_pass():
            self._unsent += 1
        self._set_timer(loop)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._queue.waiters and self._sent:  # else the next `begin` sets it
            at = self._sent[0] + self._limit.seconds
            self._timer = loop.call_at(at, self._let_through, loop)

    @safe_repr
    def __repr__(self) -> str:
        return f"<RateLimiter {self._limit}, {len(self._queue.waiters)} waiting>"


def limiter_of(limit: RateLimit | Limiter | None) -> Limiter | None:
    """Return the limiter of one session."""
    return RateLimiter(limit) if isinstance(limit, RateLimit) else limit
