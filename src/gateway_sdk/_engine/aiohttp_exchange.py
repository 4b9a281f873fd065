"""One request over aiohttp, and what is known of it."""

import asyncio
from collections.abc import AsyncIterable
from contextvars import ContextVar
from typing import Any, Final, cast

import aiohttp
import httpx
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse, hdrs
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import StreamWriter
from aiohttp.payload import Payload

from gateway_sdk._engine.progress import Progress

CURRENT: Final[ContextVar["AiohttpExchange"]] = ContextVar("exchange")
"""The exchange that aiohttp works for, to those parts of it that are ours."""


class AiohttpExchange:
    """What the parts of one exchange share.

    Attributes:
        progress: Whose `sent` becomes true before the first byte is written.
        content: What is sent; None if there is nothing.
        connection: Over which it is sent; None as long as there is none.
    """

    def __init__(self, progress: Progress, content: "Content | None") -> None:
        self.progress = progress
        self.content = content
        self.connection: asyncio.Transport | None = None
        self._caller = asyncio.current_task()
        self._cancelled = self._times_cancelled
        if content is not None:
            content.exchange = self

    @property
    def is_cancelled(self) -> bool:
        """Whether its caller was cancelled, even if it has not had its turn to notice."""
        return self._times_cancelled > self._cancelled

    @property
    def _times_cancelled(self) -> int:
        return self._caller.cancelling() if self._caller else 0

    def connected(self, connection: asyncio.Transport) -> None:
        """Take the connection over which the request is about to be sent."""
        self.connection = connection
        if self.content is None:  # else the content is asked for first, which may take its time
            self.progress.sent = True

    def cut(self) -> None:
        """Cut the connection: closing it would first send what is left to send."""
        if self.connection is not None:
            self.connection.abort()

    async def stop(self) -> None:
        """Make sure that nobody reads the content any more."""
        if self.content is not None:
            await self.content.stop()

    def failure(self, error: Exception) -> Exception:
        """Return the error that tells what happened, in httpx's words."""
        if self.content is not None and self.content.error is not None:
            return self.content.error
        return failure_of(error)


class Content(Payload):
    """The content of a request, as aiohttp wants it; it takes the time-out for writing along.

    Attributes:
        exchange: Whose content it is.
        error: What went wrong with it. aiohttp would put it into another one.
    """

    exchange: AiohttpExchange

    def __init__(self, pieces: AsyncIterable[bytes], timeout: float | None) -> None:
        super().__init__(pieces)
        self.error: Exception | None = None
        self._timeout = timeout
        self._writing: asyncio.Task[Any] | None = None

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:  # noqa: ARG002
        """Refuse: nobody looks at what is sent."""
        raise TypeError

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write it all."""
        await self.write_with_length(writer, None)

    async def write_with_length(
        self,
        writer: AbstractStreamWriter,
        content_length: int | None,  # noqa: ARG002 - who made it has made sure of it
    ) -> None:
        """Write it all."""
        self._writing = asyncio.current_task()
        try:
            async for piece in self._value:
                self._begin()
                await self._write(cast("StreamWriter", writer), piece)
            self._begin()  # nothing at all: its head comes next
        except Exception as error:
            self.error = _writing_failed(error)
            raise

    def _begin(self) -> None:
        """Say that it is sent, unless it must not or cannot be."""
        exchange = self.exchange
        if exchange.progress.sent:
            return
        if exchange.is_cancelled:  # before 3.12 the writing begins a turn later
            raise asyncio.CancelledError
        if exchange.connection is None or exchange.connection.is_closing():
            raise httpx.ConnectError("the connection was closed")
        exchange.progress.sent = True

    async def _write(self, writer: StreamWriter, piece: bytes) -> None:
        await writer.write(piece, drain=False)
        if writer.protocol.writing_paused:
            async with asyncio.timeout(self._timeout):
                await writer.drain()

    async def stop(self) -> None:
        """Stop the writing, and wait until the pieces are let go of."""
        if self._writing is not None and not self._writing.done():
            self._writing.cancel()
            await asyncio.wait([self._writing])


async def tell_truth(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Send a request, and raise what happened in httpx's words.

    aiohttp sends GET, PUT and DELETE a second time, without a word, when it sees an error of its
    own that says that the connection broke; these it does not know.
    """
    exchange = CURRENT.get()
    if exchange.content is None and request.method == hdrs.METH_DELETE:
        request.headers.popall(hdrs.CONTENT_LENGTH, None)  # nobody expects content (RFC 9110, 8.6)
    try:
        return await handler(request)
    except (aiohttp.ClientError, OSError) as error:
        raise exchange.failure(error) from None


def failure_of(error: Exception) -> Exception:
    """Return httpx's error for one of aiohttp's, of a request that was sent."""
    what = type(error).__name__
    if isinstance(error, TimeoutError):
        return httpx.ReadTimeout(what)
    if isinstance(error, aiohttp.ClientOSError):
        return httpx.ReadError(what)
    return httpx.RemoteProtocolError(what)


def _writing_failed(error: Exception) -> Exception:
    if isinstance(error, TimeoutError):
        return httpx.WriteTimeout("")
    if isinstance(error, OSError | aiohttp.ClientError):
        return httpx.WriteError(type(error).__name__)
    return error
