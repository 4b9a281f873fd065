"""One request over aiohttp, and what is known of it."""

import asyncio
from collections.abc import AsyncIterable
from contextvars import ContextVar
from typing import Any, Final, cast

import aiohttp
import httpx
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import StreamWriter
from aiohttp.payload import Payload

from gateway_sdk._transport.transmission import Transmission

CURRENT: Final[ContextVar["AiohttpExchange"]] = ContextVar("exchange")
"""The exchange that aiohttp works for, to those parts of it that are ours."""


class _WritingEndedError(Exception):
    """Tells aiohttp that no more comes; a cancellation that is none of its own confuses it."""


class AiohttpExchange(Payload):
    """One request: its head and its content, as aiohttp wants them, and how far it got.

    Attributes:
        fields: The header fields, which are sent as they are, and no others.
        transmission: Whose `sent` becomes true before the first byte is written.
        is_whole: Whether all of the content was sent, which a reply need not wait for.
    """

    def __init__(
        self,
        fields: list[tuple[str, str]],
        content: AsyncIterable[bytes] | None,
        transmission: Transmission,
        timeout: float | None,
    ) -> None:
        super().__init__(content)
        self.fields = fields
        self.transmission = transmission
        self.is_whole = content is None
        length = dict(fields).get("Content-Length")
        self._length = None if length is None else int(length)
        self._timeout = timeout  # seconds for a piece to be written
        self._connection: asyncio.Transport | None = None
        self._error: BaseException | None = None
        self._writing: asyncio.Task[Any] | None = None
        self._caller = asyncio.current_task()
        self._cancelled = self._times_cancelled

    @property
    def payload(self) -> Payload | None:
        """What aiohttp is to send; None for nothing."""
        return None if self._value is None else self

    @property
    def size(self) -> int | None:
        """Bytes of the content; None if it goes in chunks."""
        return self._length

    def connected(self, connection: asyncio.Transport) -> None:
        """Take the connection over which the request is about to be sent."""
        self._connection = connection
        if self._value is None:  # else the content is asked for first, which may take its time
            self.transmission.sent = True

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Refuse: nobody looks at what is sent."""
        raise NotImplementedError

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Refuse: a client writes with a length."""
        raise NotImplementedError

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
            self.is_whole = True
        except asyncio.CancelledError as error:
            if self._writing is None or self._writing.cancelling():
                raise
            self._error = error  # of the content itself, or for the caller
            raise _WritingEndedError from None
        except Exception as error:
            # aiohttp would put it into one of its own.
            self._error = _writing_failed(error)
            raise
        finally:
            self._writing = None

    def _begin(self) -> None:
        """Say that it is sent, unless it must not or cannot be."""
        if self.transmission.sent:
            return
        if self._times_cancelled > self._cancelled:  # before 3.12 the writing begins a turn later
            raise asyncio.CancelledError
        if self._connection is None or self._connection.is_closing():
            raise httpx.ConnectError("the connection was closed")
        self.transmission.sent = True

    async def _write(self, writer: StreamWriter, piece: bytes) -> None:
        await writer.write(piece, drain=False)
        if writer.protocol.writing_paused:
            async with asyncio.timeout(self._timeout):
                await writer.drain()

    @property
    def _times_cancelled(self) -> int:
        """How often its caller was cancelled, even if it had no turn yet to notice."""
        return self._caller.cancelling() if self._caller else 0

    def cut(self) -> None:
        """Cut the connection: closing it would first send what is left to send."""
        if self._connection is not None:
            self._connection.abort()

    async def stop(self) -> None:
        """Wait until the content is let go of; aiohttp has cancelled its writing.

        To cancel it once more would cut short what it cleans up.
        """
        if self._writing is not None:
            await asyncio.wait([self._writing])

    def failure(self, error: Exception) -> BaseException:
        """Return the error that tells what happened, in httpx's words."""
        return self._error or failure_of(error)


async def tell_truth(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """Send a request with its own header fields, and raise what happened in httpx's words.

    aiohttp sends GET, PUT and DELETE a second time, without a word, when it sees an error of its
    own that says that the connection broke; these it does not know.
    """
    exchange = CURRENT.get()
    request.headers.clear()
    request.headers.extend(exchange.fields)
    try:
        return await handler(request)
    except (aiohttp.ClientError, OSError) as error:
        failure = exchange.failure(error)
        context = failure.__context__
        try:
            raise failure from failure.__cause__
        finally:
            failure.__context__ = context  # what the content raised, and nothing of aiohttp's


def failure_of(error: Exception) -> Exception:
    """Return httpx's error for one of aiohttp's, of a request that was sent."""
    what = type(error).__name__
    if isinstance(error, TimeoutError):
        return httpx.ReadTimeout(what)
    if isinstance(error, aiohttp.ClientOSError):
        lost = httpx.ReadError(what)
        lost.__cause__ = error.__cause__  # TLS says there what is wrong
        return lost
    return httpx.RemoteProtocolError(what)


def _writing_failed(error: Exception) -> Exception:
    if isinstance(error, TimeoutError):
        return httpx.WriteTimeout("")
    if isinstance(error, OSError | aiohttp.ClientError):
        return httpx.WriteError(type(error).__name__)
    return error
