"""A server that notes when each request came, and refuses each twentieth with 503."""

import asyncio
import json
import time
from typing import Final

from benchmarks.processes import body_of, serve

STATISTICS: Final = b" /statistics "
REFUSED: Final = 20
OK: Final = b"HTTP/1.1 200 -\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"
NO: Final = b"HTTP/1.1 503 -\r\nContent-Length: 0\r\n\r\n"


class Server:
    """What the connections share."""

    def __init__(self) -> None:
        self._came: list[float] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, until it ends."""
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            if STATISTICS in head:
                body = json.dumps(self._came).encode()
                writer.write(b"HTTP/1.1 200 -\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
                continue
            self._came.append(time.time())
            async for _ in body_of(head, reader):
                pass
            writer.write(OK if len(self._came) % REFUSED else NO)
            await writer.drain()


if __name__ == "__main__":
    asyncio.run(serve(Server().handle))
