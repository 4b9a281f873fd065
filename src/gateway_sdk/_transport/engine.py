"""The engine: HTTP/1.1 directly on our own connections, and who may use one.

A connection is kept only after a whole request and a whole reply that both allow another request,
which `Exchange.can_be_reused` decides. It is reused within `KEEPALIVE_EXPIRY`, if nothing has come
since (`Connection.end_rest`), and cut otherwise.
"""

import asyncio
import re
import ssl
from collections.abc import Callable
from functools import partial
from typing import Final

import httpx

from gateway_sdk._http.reply import RawReply
from gateway_sdk._http.request import field_lines
from gateway_sdk._python import safe_repr
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.custom import is_mocked, send_by_httpx
from gateway_sdk._transport.dial import Route
from gateway_sdk._transport.exchange import Exchange
from gateway_sdk._transport.transmission import NOT_SENT, Request, Transmission
from gateway_sdk._waiting import FairQueue
from gateway_sdk.rate_limit import Limiter

KEEPALIVE_EXPIRY: Final = 50.0
"""Seconds that an idle connection is kept: load balancers usually close it after 60."""

_TIMEOUT: Final = re.compile(rb"timeout=([0-9]{1,6})", re.IGNORECASE)
_ON_THE_WAY: Final = 1.0
"""Seconds that a request may take to the server, which may close the connection meanwhile."""


class Admission:
    """Decides when a request may be sent: it needs a slot, and its turn under the rate limit."""

    def __init__(self, slots: int, limiter: Limiter | None = None) -> None:
        self.size = self.free = slots
        self._limiter = limiter
        self._queue = FairQueue(self.leave)

    def enter_now(self) -> bool:
        """Enter if nothing has to be waited for; no caller waits then, as `leave` serves these."""
        if self._limiter is not None or not self.free:
            return False
        self.free -= 1
        return True

    async def enter(self, seconds: float | None, transmission: Transmission) -> None:
        """Enter, now or later; PoolTimeout if a slot takes longer."""
        loop = asyncio.get_running_loop()
        if self.free:
            self.free -= 1
        else:
            began = loop.time()
            try:
                # With a rate limit, long waits are normal: only the deadline of the call ends them.
                limit = seconds if self._limiter is None else None
                await self._queue.turn(self._queue.join(), limit)
            except TimeoutError:
                raise httpx.PoolTimeout("no connection came free") from None
            finally:
                transmission.slot_wait = loop.time() - began
        if self._limiter is not None:
            try:
                # After the slot: a request whose turn it is can then be sent at once.
                await transmission.enter(self._limiter)
            except BaseException:
                self.leave()
                raise

    def leave(self) -> None:
        """Give the slot back: to the caller that waits longest, if there is one."""
        if not (self._queue.waiters and self._queue.let_pass()):
            self.free += 1

    @property
    def waiting(self) -> int:
        return len(self._queue.waiters)


class Pool:
    def __init__(self) -> None:
        self.open: set[Connection] = set()
        self.idle: dict[Connection, None] = {}  # the longest idle one comes first

    def add(self, connection: Connection) -> None:
        self.open.add(connection)
        connection.closed.add_done_callback(partial(self._forget, connection))

    def _forget(self, connection: Connection, _: object) -> None:
        self.open.remove(connection)
        self.idle.pop(connection, None)

    def take(self) -> Connection | None:
        """Return the last used idle connection that is fit; those that are not are cut."""
        while self.idle:
            connection, _ = self.idle.popitem()
            if connection.end_rest():
                return connection
            connection.abort()
        return None

    def keep(self, connection: Connection, hint: bytes | None = None) -> None:
        """Keep a connection for another request; data that come meanwhile end it."""
        # The hint is the field Keep-Alive of the last reply (RFC 2068, 19.7.1.1).
        seconds = KEEPALIVE_EXPIRY
        if hint is not None and (found := _TIMEOUT.search(hint)):
            seconds = min(seconds, float(found[1]) - _ON_THE_WAY)
        if connection.rest(seconds):
            self.idle[connection] = None

    async def aclose(self) -> None:
        for connection in self.open:
            connection.abort()
        if self.open:
            await asyncio.wait([connection.closed for connection in self.open])


class Engine:
    # It connects to one gateway only, whatever address a request names. `ConnectError`,
    # `ConnectTimeout`, `PoolTimeout` and `ProxyError` mean that no byte was sent.

    def __init__(
        self,
        url: httpx.URL,
        max_connections: int,
        load_tls: Callable[[], ssl.SSLContext],  # called if TLS is spoken on the way
        *,
        proxy: httpx.Proxy | None = None,
        limiter: Limiter | None = None,
    ) -> None:
        self._admission = Admission(max_connections, limiter)
        self._pool = Pool()
        self._route = Route(url, load_tls, proxy, self._pool.add)
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
        return bool(self._pool.open)

    def _head(self, request: Request) -> bytes:
        base, target, fields = request.base, request.prepared.target, request.fields
        if self._route.forwards:
            request.transmission.forwarded = True
            target = b"http://%b%b" % (base.address.netloc, target)
            fields = [*fields, *self._route.credentials]
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
            f"{slots.waiting} waiting, {len(self._pool.idle)} idle>"
        )
