"""A limit of the rate of requests: a number of requests in a number of seconds."""

import asyncio
from collections import deque
from dataclasses import dataclass

from gateway_sdk._checks import check_count, check_seconds
from gateway_sdk.errors import ConfigurationError


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


class RateLimiter:
    """Keeps a `RateLimit` in one session."""

    # A caller that is cancelled while it waits takes no turn. Between `enter` and `begin` a
    # request has its place in the limit, however long that takes.

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._unsent = 0  # requests that have passed, and have not begun
        self._sent: deque[float] = deque()  # when, oldest first, of the last `seconds`
        self._first = asyncio.Lock()  # of the caller that came first; the others queue for it
        self._begun = asyncio.Event()

    async def enter(self) -> None:
        """Wait until a request may be sent, in order of arrival."""
        loop = asyncio.get_running_loop()
        async with self._first:
            while not self._has_room(now := loop.time()):
                if self._sent:
                    await asyncio.sleep(self._sent[0] + self._limit.seconds - now)
                else:
                    self._begun.clear()
                    await self._begun.wait()
            self._unsent += 1

    def begin(self) -> None:
        """Count a request that has passed as sent now, or as one that will not be."""
        self._unsent -= 1
        self._sent.append(asyncio.get_running_loop().time())
        self._begun.set()

    def _has_room(self, now: float) -> bool:
        while self._sent and self._sent[0] + self._limit.seconds <= now:
            self._sent.popleft()
        return self._unsent + len(self._sent) < self._limit.requests
