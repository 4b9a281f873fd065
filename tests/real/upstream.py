"""The gateway behind proxies: each request is noted, then answered. It runs in the test."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from tests.real.ledger import ARRIVED, BUSY, CALL, CONNECTION, EXECUTED, Ledger
from tests.real.programs import until
from tests.support.raw_server import body_of, field, serving

_WORK: Final = 0.005
"""Seconds between executing and answering."""


class Upstream(Ledger):
    """Answers each request with the name of its call."""

    port: int

    def __init__(self) -> None:
        super().__init__()
        self.padding = 0  # bytes that follow each answer
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
        peer = str(writer.get_extra_info("peername")[1])
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            call, connection = field(head, CALL), field(head, CONNECTION) or peer
            self.note(ARRIVED, call, connection)
            self.targets[call] = head.split(b" ")[1].decode("ascii")
            async for _ in body_of(head, reader):
                pass
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
    upstream = Upstream()
    async with serving(upstream.handle, context) as port:
        upstream.port = port
        yield upstream
