"""The asyncio engine: HTTP/1.1 on connections of our own, and nothing in between."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterable, Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

import httpx

from gateway_sdk._config import KEEPALIVE_EXPIRY
from gateway_sdk._repr import safe_repr
from gateway_sdk._transport.admission import Admission, RateLimiter
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.direct import DirectRequest, DirectResponse, DirectTransport
from gateway_sdk._transport.exchange import Exchange, length_of, request_head
from gateway_sdk._transport.proxy import forwards
from gateway_sdk._transport.route import Route
from gateway_sdk._transport.transmission import EXTENSION, Transmission

_NO_TIMEOUTS: Final[Mapping[str, float | None]] = MappingProxyType(
    dict.fromkeys(("connect", "read", "write", "pool"))
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
        limiter: RateLimiter | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        ssl_context.set_alpn_protocols(["http/1.1"])
        self._admission = Admission(max_connections, limiter)
        self._route = Route(ssl_context, proxy, made=self._keep_track_of, lost=self._forget)
        self._clock = clock
        self._open: set[Connection] = set()
        self._idle: dict[Connection, tuple[bytes, float]] = {}  # the longest idle one comes first
        self._pruning: asyncio.TimerHandle | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the reply's stream holds a slot until it is closed.

        Raises:
            httpx.PoolTimeout: no slot came free in time.
            httpx.TransportError: as from `httpx.AsyncHTTPTransport`.
        """
        fields = request.headers.raw
        response = await self.exchange(
            DirectRequest(
                request.method,
                request.url,
                fields,
                cast("AsyncIterable[bytes]", request.stream),
                length_of(fields),
                httpx.Timeout(**{**_NO_TIMEOUTS, **request.extensions.get("timeout", {})}),
                request.extensions.get(EXTENSION) or Transmission(sent=False),
            )
        )
        return httpx.Response(
            response.status_code, headers=response.headers, stream=response.stream
        )

    async def exchange(self, request: DirectRequest) -> DirectResponse:
        """Send a request, as `handle_async_request` does."""
        head = self._head(request)
        url, timeout, transmission = request.url, request.timeout, request.transmission
        origin = url.raw_scheme + url.netloc
        await self._admission.enter(timeout.pool)
        connection = None
        try:
            connection = self._take(origin)
            if connection is None:
                connection = await self._route.open(url, transmission, timeout.connect)
            exchange = Exchange(connection, transmission, write=timeout.write, read=timeout.read)
            await exchange.send(head, request.content, request.length)
        except BaseException:
            if connection is not None:
                connection.abort()
            self._admission.leave()
            raise
        reply = exchange.reply
        stream = _ReplyStream(self, exchange, connection, origin)
        return DirectResponse(reply.status, httpx.Headers(reply.fields), stream)

    async def aclose(self) -> None:
        """Cut every connection that is left, and wait until all are closed."""
        if self._pruning is not None:
            self._pruning.cancel()
        for connection in self._open:
            connection.abort()
        if self._open:
            await asyncio.wait([connection.closed for connection in self._open])

    def _head(self, request: DirectRequest) -> bytes:
        method, url = request.method.encode("ascii"), request.url
        forwarded = request.transmission.forwarded = forwards(self._route.proxy, url)
        if not forwarded:
            return request_head(method, url.raw_path, request.fields)
        target = b"http://%b%b" % (url.netloc, url.raw_path)
        return request_head(method, target, [*request.fields, *self._route.credentials])

    def _take(self, origin: bytes) -> Connection | None:
        """Return the connection that was idle for the shortest time; None if none is fit."""
        oldest = self._clock() - KEEPALIVE_EXPIRY
        while self._idle:
            connection, (its_origin, since) = self._idle.popitem()
            if its_origin == origin and since > oldest and connection.is_fit():
                return connection
            connection.abort()
        return None

    def end(self, exchange: Exchange, connection: Connection, origin: bytes) -> None:
        """Give the slot back, and keep the connection if it can serve another request."""
        if exchange.can_be_followed and not connection.is_closing:
            connection.rest()
            self._idle[connection] = origin, self._clock()
            if self._pruning is None:
                self._wait_and_prune()
        else:
            connection.abort()
        self._admission.leave()

    def _keep_track_of(self, connection: Connection) -> None:
        if not connection.closed.done():
            self._open.add(connection)

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        self._idle.pop(connection, None)

    def _wait_and_prune(self) -> None:
        self._pruning = asyncio.get_running_loop().call_later(KEEPALIVE_EXPIRY, self._prune)

    def _prune(self) -> None:
        """Cut what was idle for too long; look again later if anything is left."""
        oldest = self._clock() - KEEPALIVE_EXPIRY
        for connection in [one for one, (_, since) in self._idle.items() if since <= oldest]:
            del self._idle[connection]
            connection.abort()
        self._pruning = None
        if self._idle:
            self._wait_and_prune()

    @safe_repr
    def __repr__(self) -> str:
        return f"<AsyncioEngine {self._admission.slots!r}, {len(self._idle)} idle>"


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
