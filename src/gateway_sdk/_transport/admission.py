"""The way into an engine: through the gate, and no faster than the rate limit allows."""

import asyncio

import httpx

from gateway_sdk._transport.gate import Gate
from gateway_sdk._transport.rate import RateLimiter


class Entrance:
    """Lets so many requests in at once, each with a slot of its own.

    Attributes:
        gate: The slots.
    """

    def __init__(self, max_connections: int, limiter: RateLimiter | None) -> None:
        self.gate = Gate(max_connections)
        self._limiter = limiter

    async def enter(self, request: httpx.Request) -> None:
        """Take a slot, within the time-out for it, and wait for the turn of the request.

        Raises:
            httpx.PoolTimeout: no slot came free in time.
        """
        if self.gate.free:
            await self.gate.enter()
        else:
            await self._queue(request)
        if self._limiter is not None:
            try:
                await self._limiter.enter()  # with a slot in hand: what passes is sent at once
            except BaseException:
                self.gate.leave()
                raise

    async def _queue(self, request: httpx.Request) -> None:
        # A rate limit lets the queue grow as it must; then only the deadline bounds the wait.
        paced = self._limiter is not None
        seconds = None if paced else request.extensions.get("timeout", {}).get("pool")
        try:
            async with asyncio.timeout(seconds):
                await self.gate.enter()
        except TimeoutError:
            raise httpx.PoolTimeout("no connection came free", request=request) from None

    def leave(self) -> None:
        """Give the slot back."""
        self.gate.leave()
