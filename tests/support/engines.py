"""Requests for an engine itself, without a session, and what they meet."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import httpx

from gateway_sdk._transport import engine
from gateway_sdk._transport.gateway_transport import request_of, response_of
from gateway_sdk._transport.transmission import Transmission
from tests.support.raw_server import Handler, raw_server

IDLE: Final = "<Engine 0 of 2 slots taken, 0 waiting"
"""How an engine with two slots begins to show itself when none is taken."""
CHUNK: Final = bytes(65536)


class Engine(engine.Engine):
    """An engine with two slots; without TLS if there is nothing that loads it."""

    def __init__(self, url: str, load_tls: Any = None, **options: Any) -> None:
        super().__init__(httpx.URL(url), 2, load_tls, **options)
        self._url = url

    async def send(
        self,
        method: str = "GET",
        transmission: Transmission | None = None,
        *,
        content: bytes | AsyncIterator[bytes] | None = None,
        headers: Any = None,
        **short: float,
    ) -> httpx.Response:
        """Send a request with patient time-outs but for those that are given."""
        times = {**dict.fromkeys(("connect", "read", "write", "pool"), 30.0), **short}
        request = httpx.Request(
            method, self._url, headers=headers, content=content, extensions={"timeout": times}
        )
        sent = request_of(request, transmission or Transmission())
        return response_of(await self.exchange(sent))


@asynccontextmanager
async def engine_at(handler: Handler, **options: Any) -> AsyncIterator[Engine]:
    """Serve connections with a handler, and make an engine for requests to it.

    Whatever was done with it, both slots are free in the end.
    """
    async with raw_server(handler) as url:
        engine = Engine(url, **options)
        yield engine
    assert IDLE in repr(engine)
    await engine.aclose()


async def body_of(response: httpx.Response) -> bytes:
    """Read a reply to its end and give its connection back."""
    stream = cast("httpx.AsyncByteStream", response.stream)
    body = b"".join([piece async for piece in stream])
    await stream.aclose()
    return body


class Pieces:
    """Gives pieces without end, and counts them."""

    given = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield CHUNK
            self.given += 1
            await asyncio.sleep(0)


class Greedy:
    """Takes a head in, and then as much as a test lets it."""

    def __init__(self, reply: bytes = b"") -> None:
        self.received = 0  # bytes behind the head
        self.connections = 0
        self.has_head = asyncio.Event()
        self.may_read = asyncio.Event()
        self.ended = asyncio.Event()
        self._reply = reply

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(self._reply)
        self.has_head.set()
        await self.may_read.wait()
        try:
            while data := await reader.read(65536):
                self.received += len(data)
        finally:
            self.ended.set()
