"""The asyncio engine: HTTP/1.1 directly on our own connections."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterable, Callable
from contextlib import suppress
from typing import Final, cast

import httpx

from gateway_sdk._http.pieces import PIECE
from gateway_sdk._http.request import field_lines
from gateway_sdk._python import safe_repr
from gateway_sdk._transport.connection import MOST_UNREAD, Connection
from gateway_sdk._transport.pool import Admission, Pool
from gateway_sdk._transport.proxy import forwards
from gateway_sdk._transport.rate_limit import Limiter
from gateway_sdk._transport.reply_reader import ReplyReader
from gateway_sdk._transport.route import Route
from gateway_sdk._transport.transmission import (
    TURN,
    DirectRequest,
    DirectResponse,
    DirectTransport,
    Transmission,
    WatchedPieces,
    stream_of,
)

_REDIRECTED: Final = 300


class AsyncioEngine(DirectTransport):
    """A transport that is safe to cancel, and that reports what was sent.

    `ConnectError`, `ConnectTimeout`, `PoolTimeout` and `ProxyError` mean that no byte was sent.
    """

    def __init__(
        self,
        max_connections: int,
        ssl_context: ssl.SSLContext,
        *,
        proxy: httpx.Proxy | None = None,
        limiter: Limiter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        ssl_context.set_alpn_protocols(["http/1.1"])
        self._admission = Admission(max_connections, limiter)
        self._pool = Pool[Connection](clock)
        self._route = Route(ssl_context, proxy, made=self._pool.add, lost=self._pool.forget)

    async def exchange(self, request: DirectRequest) -> DirectResponse:
        """Send a request; the stream of the reply, if any, holds a slot until it is closed.

        Raises:
            httpx.PoolTimeout: no slot became free in time.
            httpx.TransportError: as from `httpx.AsyncHTTPTransport`.
        """
        head = self._head(request)
        base, timeout, transmission = request.base, request.timeout, request.transmission
        await self._admission.enter(timeout.pool, transmission)
        connection = None
        try:
            connection = self._pool.take(base.origin)
            if connection is None:
                connection = await self._route.open(base.address, transmission, timeout.connect)
            exchange = Exchange(connection, transmission, write=timeout.write, read=timeout.read)
            await exchange.send(head, request.content, request.length)
        except BaseException:
            if connection is not None:
                connection.abort()
            self._admission.leave()
            transmission.end_turn()
            raise
        reply = exchange.reply
        if reply.is_whole:
            body = reply.take()
            self.end(exchange, connection, base.origin)
            return DirectResponse(reply.status, reply.fields, body, None)
        stream = _ReplyStream(self, exchange, connection, base.origin)
        return DirectResponse(reply.status, reply.fields, b"", stream)

    async def aclose(self) -> None:
        """Cut all open connections, and wait until they are closed."""
        await self._pool.aclose()
        await self._admission.aclose()

    def _head(self, request: DirectRequest) -> bytes:
        base, target, fields = request.base, request.target, request.fields
        if self._route.proxy is not None and forwards(self._route.proxy, base.address):
            request.transmission.forwarded = True
            target = b"http://%b%b" % (base.address.netloc, target)
            fields = [*fields, *self._route.credentials]
        return b"%b %b HTTP/1.1\r\n%b%b\r\n" % (
            base.method,
            target,
            base.lines,
            field_lines(fields),
        )

    def end(self, exchange: "Exchange", connection: Connection, origin: bytes) -> None:
        """Give the slot back, and keep the connection if it can serve another request."""
        if exchange.can_be_reused:
            self._pool.keep(connection, origin, connection)
        else:
            connection.abort()
        self._admission.leave()

    @safe_repr
    def __repr__(self) -> str:
        return f"<AsyncioEngine {self._admission.slots!r}, {self._pool!r}>"


class Exchange:
    """Sends a request, looks for an early reply meanwhile, and reads the reply.

    Attributes:
        reply: The reply, as far as it has arrived.
    """

    __slots__ = (
        "_connection",
        "_gives_up",
        "_has_begun",
        "_is_sent",
        "_read_timeout",
        "_transmission",
        "_write_timeout",
        "reply",
    )

    def __init__(
        self,
        connection: Connection,
        transmission: Transmission,
        *,
        write: float | None = None,
        read: float | None = None,
    ) -> None:
        """Set the time-outs; nothing is sent.

        Args:
            connection: Only this exchange uses it until the reply has ended.
            transmission: Gets `sent` before the first byte is sent, and the status of the reply.
            write: Seconds within which the system must take a part of a piece.
            read: Seconds within which a part of the reply must come.
        """
        self._connection = connection
        self._transmission = transmission
        self._write_timeout = write
        self._read_timeout = read
        self.reply = ReplyReader()
        self._has_begun = self._is_sent = self._gives_up = False

    @property
    def can_be_reused(self) -> bool:
        """Whether the connection may serve another request."""
        return self._is_sent and self.reply.can_be_reused

    async def send(
        self, head: bytes, content: bytes | httpx.AsyncByteStream, length: int | None
    ) -> None:
        """Send a request, and wait for the head of its reply.

        An early reply with an error status ends the sending. After an early success the rest is
        sent too, because the server may need it, until the server closes the connection or the
        time-out for a piece passes.

        Args:
            head: The whole head.
            content: Bytes, or a stream of pieces, which is not closed here. The first piece is
                sent together with the head.
            length: Bytes of the content; None to send it in chunks.

        Raises:
            httpx.ConnectError: the connection was already closed; no byte was sent.
            httpx.LocalProtocolError: the content has another length.
            httpx.TransportError: it failed later, and the head of a reply did not come.
        """
        if isinstance(content, bytes) and len(content) <= PIECE:
            self._is_sent = await self._write(head + content)
        else:
            pieces = WatchedPieces(
                stream_of(content), lambda: self._connection, self._is_overtaken, BrokenPipeError
            )
            with suppress(BrokenPipeError):
                await self._send_pieces(head, pieces, length)
        while not self.reply.status:
            await self._read_more()

    async def _send_pieces(
        self, head: bytes, content: AsyncIterable[bytes], length: int | None
    ) -> None:
        caller = cast("asyncio.Task[object]", asyncio.current_task())
        cancelled = caller.cancelling()
        unsent, left = head, length
        async for piece in content:
            # A content that cancels its own caller: the error is raised at the next wait.
            if caller.cancelling() > cancelled:
                await asyncio.sleep(0)
            if left is None:
                unsent += b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
            elif (left := left - len(piece)) < 0:
                raise httpx.LocalProtocolError("more content than its Content-Length")
            else:
                unsent += piece
            if not await self._write(unsent) or self._is_unwanted:
                break
            unsent = b""
        else:
            if left:
                raise httpx.LocalProtocolError("less content than its Content-Length")
            if left is None:
                unsent += b"0\r\n\r\n"
            self._is_sent = not unsent or await self._write(unsent)

    async def read(self) -> bytes:
        """Return received bytes of the body, as soon as there are any; b"" at its end.

        Raises:
            httpx.TransportError: the rest of the body does not come.
        """
        while not self.reply.buffered:
            if self.reply.is_whole:
                return b""
            await self._read_more()
        return self.reply.take()

    @property
    def _is_unwanted(self) -> bool:
        """Whether the rest of the request need not be sent (RFC 9112, 9.3)."""
        reply = self.reply
        return (
            reply.status >= _REDIRECTED
            or reply.failure is not None
            or self._gives_up
            or self._connection.is_closing
        )

    def _is_overtaken(self) -> bool:
        """Look for the reply while the content is waited for; what was not begun has none."""
        if self._has_begun:
            self._look()
        return self._has_begun and self._is_unwanted

    async def _write(self, data: bytes) -> bool:
        """Send a piece and return True; return False if the reply makes it unnecessary."""
        if not self._has_begun:
            if asyncio.get_running_loop().time() >= self._transmission.deadline:
                await asyncio.sleep(TURN)
            self._begin()
        else:
            self._look()
            if self._is_unwanted:
                return False
        self._connection.write(data)
        while not (self._connection.can_write or self._is_unwanted):
            await self._wait_for_writing()
            self._look()
        return True

    async def _wait_for_writing(self) -> None:
        try:
            await self._connection.wait_to_write(self._write_timeout)
        except TimeoutError:
            if not self.reply.status:
                raise httpx.WriteTimeout("") from None
            self._gives_up = True

    def _begin(self) -> None:
        """Set `sent`; refuse a connection that is closed, or has received bytes already."""
        if self._connection.is_closing or self._connection.has_unread:
            raise httpx.ConnectError("the connection was closed") from self._connection.failure
        self._has_begun = self._transmission.sent = True
        if self._transmission.on_sent is not None:
            self._transmission.end_turn()

    def _look(self) -> None:
        """Take received bytes of the reply while the request is sent, up to a limit."""
        if self.reply.buffered > MOST_UNREAD:
            return
        if data := self._connection.take():
            self._receive(data)

    async def _read_more(self) -> None:
        if self.reply.failure is not None:
            raise httpx.RemoteProtocolError(self.reply.failure)
        try:
            data = await self._connection.read(self._read_timeout)
        except TimeoutError:
            raise httpx.ReadTimeout("") from None
        except OSError as error:
            raise httpx.ReadError(type(error).__name__) from error
        if data:
            self._receive(data)
        else:
            self.reply.receive_end(cleanly=self._connection.is_clean)

    def _receive(self, data: bytes) -> None:
        self.reply.receive(data)
        self._transmission.status = self.reply.status or None


class _ReplyStream(httpx.AsyncByteStream):
    """The body of a reply as it arrives; closing it gives the slot back."""

    __slots__ = ("_connection", "_engine", "_exchange", "_origin")

    def __init__(
        self, engine: AsyncioEngine, exchange: Exchange, connection: Connection, origin: bytes
    ) -> None:
        self._engine = engine
        self._exchange = exchange
        self._connection: Connection | None = connection
        self._origin = origin

    def __aiter__(self) -> "_ReplyStream":
        return self

    async def __anext__(self) -> bytes:
        """Return the next bytes, without waiting if they are there."""
        if self._connection is None:
            raise httpx.StreamClosed
        piece = await self._exchange.read()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Keep the connection, or cut it if the reply is not complete."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._engine.end(self._exchange, connection, self._origin)
