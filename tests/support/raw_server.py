"""A server that does with each connection exactly what a test says, byte by byte."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve connections on a free loopback port, over TLS if a context is given."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        # The client went away, or the test is over.
        with suppress(asyncio.CancelledError, OSError, asyncio.IncompleteReadError):
            await handler(reader, writer)
        writer.transport.abort()
        tasks.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def raw_server(handler: Handler) -> AsyncIterator[str]:
    """Serve connections in clear, and yield the base URL."""
    async with serving(handler) as port:
        yield f"http://127.0.0.1:{port}"


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return head + await reader.readexactly(int(value))
    return head


class Server:
    """Answers every request.

    Attributes:
        received: The requests of each connection.
        writers: The connections.
        answer: What it answers, or makes an answer of a request.
    """

    def __init__(self, answer: bytes | Callable[[bytes], bytes] = OK) -> None:
        self.received: list[list[bytes]] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.answer = answer

    @property
    def requests(self) -> list[bytes]:
        return [request for requests in self.received for request in requests]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        mine: list[bytes] = []
        self.received.append(mine)
        self.writers.append(writer)
        while True:
            mine.append(await read_request(reader))
            writer.write(self.answer(mine[-1]) if callable(self.answer) else self.answer)
