"""One rate limit for all workers of a job: permits are reserved in a row of the database."""

import asyncio
from typing import Final

from gateway_sdk.fleet._database import Database
from gateway_sdk.rate_limit import Limiter, RateLimit

_BURST_SHARE: Final = 20
"""A twentieth of the requests may be sent at once, the others evenly: never more than asked for."""

_AHEAD: Final = 0.01
"""Seconds of permits that one question reserves."""


class ReservingLimiter(Limiter):
    """Reserves a few permits at a time, and hands them out in order, evenly."""

    def __init__(self, database: Database, name: str, limit: RateLimit) -> None:
        self._database = database
        self._name = name
        self._burst = max(1.0, limit.requests / _BURST_SHARE)
        self._rate = max(limit.requests - self._burst, limit.requests / 2) / limit.seconds
        self._most = max(1, min(int(self._burst), int(self._rate * _AHEAD)))
        self._lock = asyncio.Lock()
        self._left = self._waiting = 0
        self._at = 0.0

    async def enter(self) -> None:
        self._waiting += 1
        try:
            async with self._lock:  # first come, first served
                loop = asyncio.get_running_loop()
                if not self._left:
                    count = min(self._most, self._waiting)
                    wait = await self._database.reserve(
                        self._name, rate=self._rate, burst=self._burst, n=count
                    )
                    # The reply holds when the last of them is due; the first is due earlier.
                    first = loop.time() + wait - (count - 1) / self._rate
                    self._left, self._at = count, max(loop.time(), first)
                at = self._at
                self._left, self._at = self._left - 1, at + 1 / self._rate
                if (pause := at - loop.time()) > 0:
                    await asyncio.sleep(pause)
        finally:
            self._waiting -= 1
