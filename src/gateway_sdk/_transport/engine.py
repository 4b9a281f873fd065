"""The engine: HTTP/1.1 directly on our own connections, and who may use one.

A connection is kept only after a whole request and a whole reply that both allow another request,
which `Exchange.can_be_reused` decides; for how long and for what is decided in `trust.py`.
"""

import asyncio
import ssl
import sys
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator, Callable
from copy import copy
from functools import partial
from typing import Any, Final

import httpx

from gateway_sdk._http.reply import RawReply
from gateway_sdk._http.request import field_lines
from gateway_sdk._python import safe_repr
from gateway_sdk._transport.connection import MOST_UNREAD, Connection
from gateway_sdk._transport.pool import Pool
from gateway_sdk._transport.reply_reader import ReplyReader
from gateway_sdk._transport.route import Route
from gateway_sdk._transport.through_httpx import has_mock, send_by_httpx
from gateway_sdk._transport.transmission import (
    NOT_SENT,
    Request,
    SilentNetworkError,
    Transmission,
    UnreadableReplyError,
)
from gateway_sdk._transport.trust import Trust
from gateway_sdk._url import is_loopback
from gateway_sdk._waiting import OwnCancellation
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.rate_limit import RateLimiter

_REDIRECTED: Final = 300
_REFUSED: Final = 400
_SMALL: Final = 2**16  # bytes of head and content that a server reads at once


class Slots:
    """How many requests may be sent at the same time; callers wait in order of their arrival."""

    def __init__(self, size: int) -> None:
        self.size = self.free = size
        self.waiters: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    def take(self) -> bool:
        """Take a slot that is free; no caller waits then, as `give_back` serves these."""
        if not self.free:
            return False
        self.free -= 1
        return True

    async def wait(self, seconds: float | None, transmission: Transmission) -> None:
        """Take a slot that comes free; PoolTimeout if that takes longer."""
        # asyncio.timeout would cancel the task, which somebody else may do in the same turn.
        loop = asyncio.get_running_loop()
        began, slot = loop.time(), loop.create_future()
        self.waiters[slot], transmission.waits_for = None, "slot"
        try:
            await asyncio.wait([slot], timeout=seconds)
            if not slot.done():
                raise httpx.PoolTimeout("no connection came free")
            transmission.waits_for = None
        except asyncio.CancelledError:
            if slot.done():
                self.give_back()  # it came in the same turn of the event loop
            raise
        finally:
            self.waiters.pop(slot, None)
            transmission.slot_wait += loop.time() - began

    def give_back(self) -> None:
        """Give a slot back: to the caller that waits longest, if there is one."""
        if self.waiters:
            slot, _ = self.waiters.popitem(last=False)
            slot.set_result(None)
        else:
            self.free += 1


class Exchange(httpx.AsyncByteStream):
    # As a stream, it gives the body of the reply.

    on_end: Callable[["Exchange"], None] | None = None  # called once, when the stream is closed

    def __init__(
        self,
        connection: Connection,
        transmission: Transmission,
        timeout: httpx.Timeout,
        head: bytes,
    ) -> None:
        self.connection = connection  # used by nobody else until the reply has ended
        self._transmission = transmission
        self._timeout = timeout
        self._head = head  # until it is sent; as a variable, tracebacks could show its token
        self.reply = ReplyReader()
        self._is_sent = self._gives_up = self._left_at_once = False

    def can_be_reused(self) -> bool:
        # After an early refusal, servers close a connection whose upload they have not read. What
        # left in one small write was read with the head: a 404 must not cost a TLS handshake.
        was_read = self.reply.status < _REFUSED or self._left_at_once
        is_sent = self._is_sent and (self._left_at_once or self.connection.has_sent_all())
        return is_sent and was_read and self.reply.can_be_reused()

    async def send(self, content: bytes | httpx.AsyncByteStream, length: int | None) -> None:
        # An early reply with an error status ends the sending. After an early success the rest is
        # sent too, because the server may need it, until the server closes the connection or the
        # time-out for a chunk passes. The first chunk leaves together with the head.
        if isinstance(content, bytes):
            self._is_sent = self._put(content)
            if not self.connection.can_write():
                self._transmission.waits_for = "request"
                await self._flush()
                self._transmission.waits_for = None
        else:
            self._transmission.waits_for = "request"
            await self._send_chunks(content, length)
            self._transmission.waits_for = None
        while not self.reply.status:
            if (news := self._read_on()) is not None:
                await news
        if not (self._left_at_once or self._reply_is_final or self.connection.has_sent_all()):
            self.connection.limit_unsent(0)
            await self._flush()
            self.connection.limit_unsent(None)

    async def _send_chunks(self, content: AsyncIterable[bytes], left: int | None) -> None:
        # Not before: content that has begun may be impossible to send again.
        chunks, cut = aiter(content), OwnCancellation()
        while True:
            chunk = await self._next_chunk(chunks, cut)
            await cut.raise_that_of_others()  # of content that cancels its own caller
            if chunk is None:
                break
            if left is not None and (left := left - len(chunk)) < 0:
                raise httpx.LocalProtocolError("more content than its Content-Length")
            if left is None and chunk:  # joined, because `%` makes room for more, and gives it back
                chunk = b"".join((b"%x\r\n" % len(chunk), chunk, b"\r\n"))
            if not await self._write(chunk) or self._reply_is_final:
                return
        if left:
            raise httpx.LocalProtocolError("less content than its Content-Length")
        end = b"0\r\n\r\n" if left is None else b""
        self._is_sent = not (end or self._head) or await self._write(end)

    async def _next_chunk(self, chunks: AsyncIterator[bytes], cut: OwnCancellation) -> bytes | None:
        """Wait for a chunk; empty if the reply makes it unnecessary, None after the last one."""
        # Cancelled as by a time-out: the task itself reads the chunks.
        self.connection.on_event = partial(self._cut_if_final, cut)
        try:
            return await anext(chunks, None)
        except asyncio.CancelledError as error:
            if cut.take_back(type(error)):
                return b""
            raise  # it comes from others
        finally:
            self.connection.on_event = None
            cut.take_back(None)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.on_end is None:
            raise httpx.StreamClosed
        while not self.reply.buffered:
            if self.reply.is_whole:
                raise StopAsyncIteration
            if (news := self._read_on()) is not None:
                await news
        return self.reply.take()

    async def aclose(self) -> None:
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            self.reply.stream = None  # a cycle, which would keep the body for a while
            on_end(self)

    @property
    def _reply_is_final(self) -> bool:
        """Whether the rest of the request need not be sent (RFC 9112, 9.3)."""
        reply = self.reply
        return (
            reply.status >= _REDIRECTED
            or reply.failure is not None
            or self._gives_up
            or self.connection.is_closing()
        )

    def _cut_if_final(self, wait: OwnCancellation) -> None:
        if self._transmission.sent:  # else there is no reply to it
            self.receive_early()
            if self._reply_is_final:
                wait.cancel()

    async def _write(self, data: bytes) -> bool:
        is_wanted = self._put(data)
        await self._flush()
        return is_wanted

    def _put(self, data: bytes) -> bool:
        """Send a chunk and return True; return False if the reply makes it unnecessary."""
        self._left_at_once = False
        if not self._transmission.sent:
            self._begin()
            data, self._head = self._head + data, b""
            self._left_at_once = len(data) <= _SMALL
        else:
            self.receive_early()
            if self._reply_is_final:
                return False
        self.connection.write(data)
        return True

    async def _flush(self) -> None:
        """Wait until the system takes more data, unless the reply makes that unnecessary."""
        connection = self.connection
        while not (connection.can_write() or self._reply_is_final):
            unsent = connection.unsent()
            try:
                await connection.wait(self._timeout.write, httpx.WriteTimeout)
            except httpx.WriteTimeout:
                self._gives_up = connection.unsent() >= unsent  # else it has taken a part
                if self._gives_up and not self.reply.status:
                    raise
            self.receive_early()

    def _begin(self) -> None:
        connection = self.connection
        if not connection.is_quiet():
            if early := connection.take():  # it cannot be the reply
                self.reply.receive(early)
                unasked = UnreadableReplyError("it sent bytes before the request")
                raise httpx.ConnectError("") from self.reply.failure or unasked
            raise httpx.ConnectError("the connection was closed") from connection.failure
        self._transmission.check()
        if self._transmission.on_sent is not None:
            self._transmission.end_turn()
        self._transmission.sent = True

    def receive_early(self) -> None:
        """Take received bytes of the reply while the request is sent, up to a limit."""
        if self.reply.buffered <= MOST_UNREAD and (data := self.connection.take()):
            self._receive(data)

    def _read_on(self) -> asyncio.Future[None] | None:
        """Read what has come; if there is nothing, return what to wait for."""
        if self.reply.failure is not None:
            raise copy(self.reply.failure)  # else the reply would hold these frames: a cycle
        connection = self.connection
        if not connection.has_news():
            return connection.wait(self._timeout.read, httpx.ReadTimeout)
        if data := connection.take():
            self._receive(data)
        elif isinstance(connection.failure, TimeoutError):  # of probes without an answer
            raise SilentNetworkError("") from connection.failure
        elif connection.failure is not None:
            raise httpx.ReadError(type(connection.failure).__name__) from connection.failure
        else:
            self.reply.receive_end(cleanly=connection.is_clean)
        return None

    def _receive(self, data: bytes) -> None:
        self.reply.receive(data)
        self._transmission.status = self.reply.status or None


class Engine:
    # It connects to one gateway only, whatever address a request names. `ConnectError`,
    # `ConnectTimeout`, `PoolTimeout` and `ProxyError` mean that no byte was sent.

    def __init__(
        self,
        url: httpx.URL,
        max_connections: int,
        load_tls: Callable[[], ssl.SSLContext],  # called if TLS is spoken on the way
        stamp: Callable[[], object] = lambda: None,
        *,
        proxy: httpx.Proxy | None = None,
        limiter: RateLimiter | None = None,
    ) -> None:
        self._slots = Slots(max_connections)
        self._limiter = limiter
        trust = Trust(has_proxy=proxy is not None)
        self._pool = Pool(trust, max_connections)
        self._route = Route(url, load_tls, stamp, proxy, self._pool.add)
        if self._route.forwards:
            trust.doubt()
        self._is_here = is_loopback(url.host)
        self._methods: tuple[Any, ...] = ()  # of httpx's network, when it was looked at
        self._is_mocked = False
        self._httpx: httpx.AsyncHTTPTransport | None = None

    async def exchange(self, request: Request) -> RawReply:
        prepared, timeout, transmission = request.prepared, request.timeout, request.transmission
        if not self._slots.take():
            # With a rate limit, long waits are normal: only the deadline of the call ends them.
            seconds = timeout.pool if self._limiter is None else None
            await self._slots.wait(seconds, transmission)
        connection = exchange = None
        try:
            if self._limiter or transmission.slot_wait or transmission.on_admitted:
                await transmission.admit(self._limiter)
            if self._has_mock():
                reply = await self._exchange_by_httpx(request)
                self._slots.give_back()  # its body is in memory
                return reply
            connection = self._pool.take(transmission)
            if connection is None:
                connection = await self._route.open(transmission, timeout.connect)
            exchange = Exchange(connection, transmission, timeout, self._head(request))
            exchange.reply.has_no_body = request.base.method == b"HEAD"
            await exchange.send(prepared.content, prepared.length)
        except BaseException as error:
            if exchange is not None:
                exchange.receive_early()  # it may have come in the same turn
            if connection is not None:
                connection.abort()
                if transmission.sent and transmission.status is None:
                    self._pool.lose(connection, error)
            self._slots.give_back()
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

    async def connect(self, request: Request) -> bool:
        """Open a connection, which the next request uses; False if a test has replaced them."""
        if self._has_mock():
            return False
        timeout, transmission = request.timeout, request.transmission
        if not self._slots.take():
            await self._slots.wait(timeout.pool, transmission)
        try:
            connection = await self._route.open(transmission, timeout.connect)
        finally:
            self._slots.give_back()
        # Else repeated checks would collect them.
        if (other := self._pool.take(transmission)) is not None:
            other.abort()
        self._pool.keep(connection)
        return True

    def _has_mock(self) -> bool:
        """Tell whether a known mock has replaced httpx's network."""
        core = sys.modules.get("httpcore")  # perhaps a thread imports it just now
        kind = getattr(core, "AsyncConnectionPool", None)
        pool = getattr(kind, "handle_async_request", None)
        of_client = getattr(httpx.AsyncClient, "_transport_for_url", None)
        # wrapt's objects are equal to what they wrap, and have the same verdict.
        methods = httpx.AsyncHTTPTransport.handle_async_request, pool, of_client
        if methods != self._methods:
            if not self._is_here and has_mock([of_client]):  # a request would leave the test
                problem = (
                    'respx.mock(using="httpx") replaces clients of httpx, of which this session'
                )
                raise ConfigurationError(f"{problem} has none: leave out using=")
            self._methods, self._is_mocked = methods, has_mock(methods)
        return self._is_mocked

    async def _exchange_by_httpx(self, request: Request) -> RawReply:
        """Send through httpx, whose network a test has replaced."""
        tls = await self._route.tls()
        if self._httpx is None:
            self._httpx = httpx.AsyncHTTPTransport(verify=tls, proxy=self._route.proxy)
        transmission = request.transmission
        transmission.end_turn()
        transmission.sent = True
        try:
            return await send_by_httpx(self._httpx, request)
        except NOT_SENT:
            transmission.sent = False
            raise

    async def prepare(self) -> None:
        await self._route.tls()

    async def aclose(self) -> None:
        await self._pool.aclose()
        if self._httpx is not None:  # vcrpy records over real connections of its
            await self._httpx.aclose()

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
        self._slots.give_back()

    @safe_repr
    def __repr__(self) -> str:
        slots = self._slots
        return (
            f"<Engine {slots.size - slots.free} of {slots.size} slots taken, "
            f"{len(slots.waiters)} waiting, {len(self._pool.idle)} idle>"
        )
