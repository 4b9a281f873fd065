"""The gateway behind proxies: each request is noted, then answered. It runs in the test."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from tests.real.ledger import ARRIVED, BUSY, CALL, CONNECTION, EXECUTED, Ledger
from tests.real.programs import until
from tests.support.raw_server import serving

_WORK: Final = 0.005
"""Seconds between executing and answering."""


class Upstream(Ledger):
    """Answers each request with the name of its call.

    Attributes:
        port: Where it listens.
        padding: Bytes that follow each answer.
    """

    port: int

    def __init__(self) -> None:
        super().__init__()
        self.padding = 0
        self._waiting = 0
        self._may_answer = asyncio.Event()
        self._may_answer.set()

    async def while_busy(self, act: Callable[[], Awaitable[None]]) -> None:
        """Do something while requests are executed that have no answer, and get none before."""
        self._may_answer.clear()
        try:
            await until(lambda: self._waiting >= BUSY)
            await act()
        finally:
            self._may_answer.set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until the other side closes it."""
        peer = str(writer.get_extra_info("peername")[1])
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            call, connection = _field(head, CALL), _field(head, CONNECTION) or peer
            self.note(ARRIVED, call, connection)
            await _read_body(head, reader)
            self.note(EXECUTED, call, connection)
            await self._work()
            body = f'"{call}"'.encode() + b" " * self.padding
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )

    async def _work(self) -> None:
        self._waiting += 1
        try:
            await asyncio.sleep(_WORK)
            await self._may_answer.wait()
        finally:
            self._waiting -= 1


@asynccontextmanager
async def serving_upstream(context: ssl.SSLContext | None = None) -> AsyncIterator[Upstream]:
    """Serve it on a free port, over TLS if a context is given."""
    upstream = Upstream()
    async with serving(upstream.handle, context) as port:
        upstream.port = port
        yield upstream


def _field(head: bytes, name: str) -> str:
    found = re.search(rb"(?i)\r\n%s: *(\S+)" % name.encode(), head)
    return found[1].decode() if found else ""


async def _read_body(head: bytes, reader: asyncio.StreamReader) -> None:
    if _field(head, "Transfer-Encoding"):
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    else:
        await reader.readexactly(int(_field(head, "Content-Length") or 0))
