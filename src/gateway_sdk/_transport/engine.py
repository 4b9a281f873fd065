"""The engine: HTTP/1.1 directly on our own connections."""

import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import cast

import httpx

from gateway_sdk._http.reply import RawReply
from gateway_sdk._http.request import field_lines
from gateway_sdk._python import safe_repr
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.exchange import Exchange
from gateway_sdk._transport.interception import is_mocked
from gateway_sdk._transport.pool import Admission, Pool
from gateway_sdk._transport.proxy import forwards
from gateway_sdk._transport.route import Route
from gateway_sdk._transport.transmission import NOT_SENT, Request, send_by_httpx
from gateway_sdk.rate_limit import Limiter


class Engine:
    # `ConnectError`, `ConnectTimeout`, `PoolTimeout` and `ProxyError` mean that no byte was sent.

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
        self._pool = Pool(clock)
        self._route = Route(ssl_context, proxy, made=self._pool.add, lost=self._pool.forget)
        self._mocked: httpx.AsyncHTTPTransport | None = None

    async def exchange(self, request: Request) -> RawReply:
        head = self._head(request)
        prepared, timeout, transmission = request.prepared, request.timeout, request.transmission
        base = request.base
        if not self._admission.enter_now():
            await self._admission.enter(timeout.pool, transmission)
        connection = None
        try:
            if transmission.on_admitted is not None:
                await transmission.on_admitted()
            if is_mocked():
                return await self._exchange_by_httpx(request)
            connection = self._pool.take(base.origin)
            if connection is None:
                connection = await self._route.open(base.address, transmission, timeout.connect)
            exchange = Exchange(connection, transmission, timeout)
            await exchange.send(head, prepared.content, prepared.length)
        except BaseException:
            if connection is not None:
                connection.abort()
            self._admission.leave()
            transmission.end_turn()
            raise
        reply = exchange.reply
        if reply.is_whole:
            reply.body = reply.take()
            self._end(exchange, connection, base.origin)
        else:
            end = partial(self._end, exchange, connection, base.origin)
            reply.stream = _ReplyStream(exchange, end)
        return reply

    async def _exchange_by_httpx(self, request: Request) -> RawReply:
        """Send through httpx, whose network a test has replaced; see `interception`."""
        if self._mocked is None:
            route = self._route
            self._mocked = httpx.AsyncHTTPTransport(verify=route.ssl_context, proxy=route.proxy)
        transmission = request.transmission
        transmission.end_turn()
        transmission.sent = True
        try:
            reply = await send_by_httpx(self._mocked, request)
        except NOT_SENT:
            transmission.sent = False
            raise
        stream = cast("httpx.AsyncByteStream", reply.stream)
        reply.stream = _ReplyStream(aiter(stream), self._admission.leave, stream.aclose)
        return reply

    async def aclose(self) -> None:
        await self._pool.aclose()
        self._route.close()
        if self._mocked is not None:  # vcrpy records over real connections of its
            await self._mocked.aclose()

    @property
    def is_connected(self) -> bool:
        return self._pool.is_connected

    def _head(self, request: Request) -> bytes:
        base, target, fields = request.base, request.prepared.target, request.fields
        if self._route.proxy is not None and forwards(self._route.proxy, base.address):
            request.transmission.forwarded = True
            target = b"http://%b%b" % (base.address.netloc, target)
            fields = [*fields, *self._route.credentials]
        line: bytes = base.method + b" " + target + b" HTTP/1.1\r\n"
        return line + base.lines + field_lines(fields) + b"\r\n"

    def _end(self, exchange: Exchange, connection: Connection, origin: bytes) -> None:
        """Give the slot back, and keep the connection if it can serve another request."""
        if exchange.can_be_reused:
            self._pool.keep(connection, origin)
        else:
            connection.abort()
        self._admission.leave()

    @safe_repr
    def __repr__(self) -> str:
        return f"<Engine {self._admission!r}, {self._pool!r}>"


async def _nothing() -> None:
    """A reply of our own has nothing else to close."""


class _ReplyStream(httpx.AsyncByteStream):
    """The body of a reply; closing it gives the slot back."""

    def __init__(
        self,
        chunks: AsyncIterator[bytes],
        end: Callable[[], None],
        close: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        self._chunks = chunks
        self._end: Callable[[], None] | None = end
        self._close = close

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._end is None:
            raise httpx.StreamClosed
        return await anext(self._chunks)

    async def aclose(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()
            await self._close()
