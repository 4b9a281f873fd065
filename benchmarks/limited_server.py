"""A server that takes so many requests at once, and refuses the others.

Arguments: how many; seconds that each takes; the status of a refusal; the seconds of its
Retry-After, 0 for none; how much the latency varies, from 0 to 1.
"""

import asyncio
import random
import sys
from contextlib import suppress

from benchmarks.processes import body_of, serve


class Server:
    """What the connections share."""

    def __init__(
        self, limit: int, latency: float, status: int, retry_after: int, noise: float
    ) -> None:
        self._limit = limit
        self._latency = latency
        self._noise = noise
        wait = f"Retry-After: {retry_after}\r\n" if retry_after else ""
        self._no = f"HTTP/1.1 {status} -\r\n{wait}Content-Length: 0\r\n\r\n".encode()
        self._random = random.Random(1)  # noqa: S311 - the same each time
        self._serving = 0

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
        if self._serving >= self._limit:
            return self._no
        self._serving += 1
        try:
            vary = self._random.uniform(-self._noise, self._noise)
            await asyncio.sleep(self._latency * (1 + vary))
        finally:
            self._serving -= 1
        return b"HTTP/1.1 200 -\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"


if __name__ == "__main__":
    limit, latency, status, retry_after, noise = map(float, sys.argv[1:])
    asyncio.run(serve(Server(int(limit), latency, int(status), int(retry_after), noise).handle))
