"""A server that behaves as one of the gateways of `benchmarks.simulated`, on a real socket.

Arguments: the name of the gateway; the factor by which its latency is longer.
"""

import asyncio
import math
import random
import sys
from contextlib import suppress

from benchmarks.processes import body_of, serve
from benchmarks.simulated import LATENCY, REFUSAL, TABLE, Gateway

YES = b"HTTP/1.1 200 -\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"


class Server:
    """What the connections share."""

    def __init__(self, gateway: Gateway, factor: float) -> None:
        self._gateway = gateway
        self._limits = gateway.limits()
        self._latency = factor * LATENCY
        self._random = random.Random(1)  # noqa: S311 - the same each time
        self._serving = 0
        self._began: float | None = None  # the time of the first request

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, until it or the server ends."""
        with suppress(asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                async for _ in body_of(head, reader):
                    pass
                writer.write(await self._answer())
                await writer.drain()

    async def _answer(self) -> bytes:
        now = asyncio.get_running_loop().time()
        self._began = now if self._began is None else self._began
        gateway = self._gateway
        if not self._limits.takes(now - self._began, self._serving):
            return await _no(gateway.status, gateway.retry_after)
        if self._random.random() < gateway.noise:
            return await _no(503, None)
        self._serving += 1
        try:
            await asyncio.sleep(self._seconds())
        finally:
            self._serving -= 1
        return YES

    def _seconds(self) -> float:
        sigma, pool = self._gateway.sigma, self._gateway.pool or self._serving
        varied = self._latency * math.exp(self._random.gauss(0, sigma) - sigma**2 / 2)
        return varied * max(1.0, self._serving / pool) ** 2


async def _no(status: int, retry_after: float | None) -> bytes:
    await asyncio.sleep(REFUSAL)
    wait = f"Retry-After: {retry_after:.0f}\r\n" if retry_after else ""
    return f"HTTP/1.1 {status} -\r\n{wait}Content-Length: 0\r\n\r\n".encode()


if __name__ == "__main__":
    name, factor = sys.argv[1:]
    asyncio.run(serve(Server(TABLE[name], float(factor)).handle))
