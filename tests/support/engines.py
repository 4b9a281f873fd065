"""Requests for an engine itself, without a session, and what they meet."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final, cast

import httpx

from gateway_sdk._transport import engine
from gateway_sdk._transport.public import request_of, response_of
from gateway_sdk._transport.transmission import EXTENSION, Transmission

IDLE: Final = "<Engine 0 of 2 slots taken, 0 waiting"
"""How an engine with two slots begins to show itself when none is taken."""
CHUNK: Final = bytes(65536)


class Engine(engine.Engine, httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and tell its transmission what happened."""
        transmission = request.extensions.get(EXTENSION) or Transmission(sent=False)
        return response_of(await self.exchange(request_of(request, transmission)))


def make_request(
    url: str,
    method: str = "GET",
    transmission: Transmission | None = None,
    *,
    content: bytes | AsyncIterator[bytes] | None = None,
    **short: float,
) -> httpx.Request:
    """Make a request with patient time-outs but for those that are given."""
    times = {**dict.fromkeys(("connect", "read", "write", "pool"), 30.0), **short}
    return httpx.Request(
        method,
        url,
        content=content,
        extensions={"timeout": times, **({EXTENSION: transmission} if transmission else {})},
    )


async def body_of(response: httpx.Response) -> bytes:
    """Read a reply to its end and give its connection back."""
    stream = cast("httpx.AsyncByteStream", response.stream)
    body = b"".join([piece async for piece in stream])
    await stream.aclose()
    return body


class Pieces:
    """Gives pieces without end, or until it is told otherwise.

    Attributes:
        given: How many were given.
        closed: How often it was closed.
        cleaned: Whether it was let do so to its end.
        cleaning: Set when it has begun to.
        may_end: For the test to set, if that is to take its time.
    """

    def __init__(self, *, slowly: bool = False) -> None:
        self.given = 0
        self.closed = 0
        self.cleaned = False
        self.cleaning = asyncio.Event()
        self.may_end = asyncio.Event()
        self._slowly = slowly

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield CHUNK
                self.given += 1
                await asyncio.sleep(0)
        finally:
            self.closed += 1
            self.cleaning.set()
            if self._slowly:
                await self.may_end.wait()
            self.cleaned = True


class Greedy:
    """Takes a head in, and then as much as a test lets it.

    Attributes:
        received: Bytes behind the head.
        connections: How many there were.
        has_head: Set when the head is there.
        may_read: For the test to set.
        ended: Set when the connection has ended.
    """

    def __init__(self, reply: bytes = b"") -> None:
        self.received = 0
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
