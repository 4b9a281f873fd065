"""The engine: HTTP/1.1 directly on our own connections."""

import ssl
from collections.abc import Callable

import httpx

from gateway_sdk._http.reply import RawReply
from gateway_sdk._http.request import field_lines
from gateway_sdk._python import safe_repr
from gateway_sdk._transport.custom import is_mocked, send_by_httpx
from gateway_sdk._transport.dial import Route
from gateway_sdk._transport.exchange import Exchange
from gateway_sdk._transport.pool import Admission, Pool
from gateway_sdk._transport.proxy import credentials_of, forwards
from gateway_sdk._transport.transmission import NOT_SENT, Request
from gateway_sdk.rate_limit import Limiter


class Engine:
    # It connects to one gateway only, whatever address a request names. `ConnectError`,
    # `ConnectTimeout`, `PoolTimeout` and `ProxyError` mean that no byte was sent.

    def __init__(
        self,
        url: httpx.URL,
        max_connections: int,
        load_tls: Callable[[], ssl.SSLContext] | None,  # if TLS is spoken on the way
        *,
        proxy: httpx.Proxy | None = None,
        limiter: Limiter | None = None,
    ) -> None:
        self._admission = Admission(max_connections, limiter)
        self._pool = Pool()
        self._route = Route(url, load_tls, proxy, self._pool)
        self._forwards = forwards(proxy, url)
        self._credentials = credentials_of(proxy)
        self._mocked: httpx.AsyncHTTPTransport | None = None

    async def exchange(self, request: Request) -> RawReply:
        head = self._head(request)
        prepared, timeout, transmission = request.prepared, request.timeout, request.transmission
        if not self._admission.enter_now():
            await self._admission.enter(timeout.pool, transmission)
        connection = None
        try:
            if transmission.on_admitted is not None:
                await transmission.on_admitted()
            if is_mocked():
                reply = await self._exchange_by_httpx(request)
                self._admission.leave()  # its body is in memory
                return reply
            connection = self._pool.take()
            if connection is None:
                connection = await self._route.open(transmission, timeout.connect)
            exchange = Exchange(connection, transmission, timeout)
            exchange.reply.has_no_body = request.base.method == b"HEAD"
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
            self._end(exchange)
        else:
            exchange.on_end = self._end
            reply.stream = exchange
        return reply

    async def _exchange_by_httpx(self, request: Request) -> RawReply:
        """Send through httpx, whose network a test has replaced."""
        tls = await self._route.tls()
        if self._mocked is None:
            self._mocked = httpx.AsyncHTTPTransport(verify=tls, proxy=self._route.proxy)
        transmission = request.transmission
        transmission.end_turn()
        transmission.sent = True
        try:
            return await send_by_httpx(self._mocked, request)
        except NOT_SENT:
            transmission.sent = False
            raise

    async def prepare(self) -> None:
        await self._route.tls()

    async def aclose(self) -> None:
        await self._pool.aclose()
        if self._mocked is not None:  # vcrpy records over real connections of its
            await self._mocked.aclose()

    @property
    def is_connected(self) -> bool:
        return self._pool.is_connected

    def _head(self, request: Request) -> bytes:
        base, target, fields = request.base, request.prepared.target, request.fields
        if self._forwards:
            request.transmission.forwarded = True
            target = b"http://%b%b" % (base.address.netloc, target)
            fields = [*fields, *self._credentials]
        line: bytes = base.method + b" " + target + b" HTTP/1.1\r\n"
        return line + base.lines + field_lines(fields) + b"\r\n"

    def _end(self, exchange: Exchange) -> None:
        """Give the slot back, and keep the connection if it can serve another request."""
        if exchange.can_be_reused():
            self._pool.keep(exchange.connection, exchange.reply.index.get(b"keep-alive"))
        else:
            exchange.connection.abort()
        self._admission.leave()

    @safe_repr
    def __repr__(self) -> str:
        slots = self._admission
        return (
            f"<Engine {slots.size - slots.free} of {slots.size} slots taken, "
            f"{slots.waiting} waiting, {self._pool.idle} idle>"
        )
