"""A server that does with each connection exactly what a test says, byte by byte."""

import asyncio
import re
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
        # Turns, after which what came last has its task: asyncio leaves open what it has accepted
        # when the server is closed before that.
        for _ in range(5):
            await asyncio.sleep(0)
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def raw_server(handler: Handler) -> AsyncIterator[str]:
    async with serving(handler) as port:
        yield f"http://127.0.0.1:{port}"


def field(head: bytes, name: str) -> str:
    found = re.search(rb"(?i)\r\n%s: *([^\r]*)" % name.encode(), head)
    return found[1].decode("latin-1") if found else ""


async def body_of(head: bytes, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Read a body with a length or in chunks (RFC 9112, 7.1), without its framing."""
    left = int(field(head, "Content-Length") or 0)
    while left:
        piece = await reader.read(min(left, 2**16))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        yield piece
    while field(head, "Transfer-Encoding"):
        size = int(await reader.readuntil(b"\r\n"), 16)
        yield (await reader.readexactly(size + 2))[:-2]
        if not size:
            return


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(int(field(head, "Content-Length") or 0))


class Server:
    """Answers every request."""

    def __init__(self, answer: bytes | Callable[[bytes], bytes] = OK) -> None:
        self.received: list[list[bytes]] = []  # the requests of each connection
        self.writers: list[asyncio.StreamWriter] = []
        self.answer = answer  # what it answers, or makes an answer of a request

    @property
    def requests(self) -> list[bytes]:
        return [request for requests in self.received for request in requests]

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine: list[bytes] = []
        self.received.append(mine)
        self.writers.append(writer)
        while True:
            mine.append(await read_request(reader))
            writer.write(self.answer(mine[-1]) if callable(self.answer) else self.answer)
