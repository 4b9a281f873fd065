"""The asyncio engine: HTTP/1.1 on connections of our own, and nothing in between."""

import ssl
import time
from collections.abc import Callable

import httpx

from gateway_sdk._http.request import field_lines
from gateway_sdk._repr import safe_repr
from gateway_sdk._transport.admission import Admission, Limiter
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.exchange import Exchange
from gateway_sdk._transport.pool import Pool
from gateway_sdk._transport.proxy import forwards
from gateway_sdk._transport.route import Route
from gateway_sdk._transport.transmission import (
    DirectRequest,
    DirectResponse,
    DirectTransport,
)


class AsyncioEngine(DirectTransport):
    """A transport that is safe to cancel and tells what was sent.

    `ConnectError`, `ConnectTimeout`, `PoolTimeout` and `ProxyError` mean that no byte left.
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
            httpx.PoolTimeout: no slot came free in time.
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
            raise
        reply = exchange.reply
        if reply.is_whole:
            body = reply.take()
            self.end(exchange, connection, base.origin)
            return DirectResponse(reply.status, reply.fields, body, None)
        stream = _ReplyStream(self, exchange, connection, base.origin)
        return DirectResponse(reply.status, reply.fields, b"", stream)

    async def aclose(self) -> None:
        """Cut every connection that is left, and wait until all are closed."""
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

    def end(self, exchange: Exchange, connection: Connection, origin: bytes) -> None:
        """Give the slot back, and keep the connection if it can serve another request."""
        if exchange.can_be_followed:
            self._pool.keep(connection, origin, connection)
        else:
            connection.abort()
        self._admission.leave()

    @safe_repr
    def __repr__(self) -> str:
        return f"<AsyncioEngine {self._admission.slots!r}, {self._pool!r}>"


class _ReplyStream(httpx.AsyncByteStream):
    """The body of a reply as it comes, which gives the slot back when it is closed."""

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
        """Return what came next, at once if it is there."""
        if self._connection is None:
            raise httpx.StreamClosed
        piece = await self._exchange.read()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Keep the connection, or cut it if the reply did not come to its end."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._engine.end(self._exchange, connection, self._origin)
