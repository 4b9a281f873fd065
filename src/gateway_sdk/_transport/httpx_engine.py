"""The httpx engine: one-connection transports behind slots of our own.

httpx's own pool loses slots for good when waiting callers are cancelled (encode/httpcore#1093)
and looks at every connection on each request. Here the slots do the waiting, so that no pool
ever has a queue; each transport holds one connection, is run by its caller directly, and is
thrown away after any error or cancellation.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, cast

import httpx

from gateway_sdk._config import KEEPALIVE_EXPIRY
from gateway_sdk._repr import safe_repr
from gateway_sdk._transport.admission import Admission, RateLimiter
from gateway_sdk._transport.proxy import forwards
from gateway_sdk._transport.reason import place_of
from gateway_sdk._transport.transmission import EXTENSION, Transmission

_ONE_CONNECTION = httpx.Limits(
    max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEPALIVE_EXPIRY
)

_BROKEN = (
    httpx.ReadError,
    httpx.WriteError,
    httpx.ProtocolError,
    httpx.ReadTimeout,
    httpx.WriteTimeout,
)
"""Failures of what was sent; while a proxy is asked for a tunnel, that is not the request."""


class HttpxEngine(httpx.AsyncBaseTransport):
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
        self._admission = Admission(max_connections, limiter)
        self._ssl_context = ssl_context
        self.proxy = proxy
        self._clock = clock
        self._idle: deque[tuple[httpx.AsyncHTTPTransport, float]] = deque()  # oldest first
        self._pruning: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the reply's stream holds a slot until it is closed.

        Raises:
            httpx.PoolTimeout: no slot came free in time.
            httpx.TransportError: as from `httpx.AsyncHTTPTransport`.
        """
        await self._admission.enter(request)
        lease = _Lease(self)
        try:
            response = await lease.send(request)
        except BaseException:
            lease.drop()
            raise
        stream = _LeasedStream(cast("httpx.AsyncByteStream", response.stream), lease)
        return httpx.Response(response.status_code, headers=response.headers, stream=stream)

    async def aclose(self) -> None:
        """Close every idle connection, and wait for those that are being closed."""
        if self._pruning is not None:
            self._pruning.cancel()
        while self._idle:
            self.close(self._idle.pop()[0].aclose())
        if self._closing:
            await asyncio.wait(self._closing)

    def leave(self) -> None:
        """Give a slot back."""
        self._admission.leave()

    def take(self) -> httpx.AsyncHTTPTransport:
        """Return the connection that was idle for the shortest time, or a new one."""
        if self._idle:
            return self._idle.pop()[0]
        return httpx.AsyncHTTPTransport(
            verify=self._ssl_context, limits=_ONE_CONNECTION, trust_env=False, proxy=self.proxy
        )

    def keep(self, connection: httpx.AsyncHTTPTransport) -> None:
        """Take a connection back after a whole reply."""
        self._idle.append((connection, self._clock()))
        if self._pruning is None:
            self._wait_and_prune()

    def close(self, closing: Coroutine[Any, Any, None]) -> None:
        """Close something without making the caller wait, who may have been cancelled."""
        task = asyncio.get_running_loop().create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _wait_and_prune(self) -> None:
        self._pruning = asyncio.get_running_loop().call_later(KEEPALIVE_EXPIRY, self._prune)

    def _prune(self) -> None:
        """Close what was idle for too long; look again later if anything is left."""
        oldest = self._clock() - KEEPALIVE_EXPIRY
        while self._idle and self._idle[0][1] <= oldest:
            self.close(self._idle.popleft()[0].aclose())
        self._pruning = None
        if self._idle:
            self._wait_and_prune()

    @safe_repr
    def __repr__(self) -> str:
        return f"<HttpxEngine {self._admission.slots!r}, {len(self._idle)} idle>"


class _Lease:
    """One connection and its slot, for one request and its reply."""

    def __init__(self, engine: HttpxEngine) -> None:
        self._engine = engine
        self._connection: httpx.AsyncHTTPTransport | None = None
        self._transmission: Transmission | None = None
        self._tunnelling = False
        self._socket: Any = None
        self._cause: BaseException | None = None

    async def send(self, request: httpx.Request) -> httpx.Response:
        """Send the request over a connection that nobody else uses."""
        self._transmission = request.extensions.get(EXTENSION)
        if self._transmission is not None:
            self._transmission.forwarded = forwards(self._engine.proxy, request.url)
        request.extensions["trace"] = self._trace
        self._connection = self._engine.take()
        try:
            return await self._connection.handle_async_request(request)
        except httpx.ConnectError as error:
            raise error from self._cause  # which httpcore's pool has cut off
        except (ssl.SSLError, *_BROKEN) as error:
            if self._tunnelling:
                raise httpx.ProxyError(f"no tunnel: {type(error).__name__}") from None
            if isinstance(error, ssl.SSLError):  # after a handshake httpcore lets it through
                raise httpx.ReadError("TLS failed") from error
            raise

    async def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Follow what httpcore does: `sent` must be true before the first byte is written."""
        if event == "http11.send_request_headers.started" and self._transmission is not None:
            # What asks a proxy for a tunnel is not the request yet.
            self._tunnelling = info["request"].method == b"CONNECT"
            self._transmission.sent = not self._tunnelling
        elif event == "connection.connect_tcp.complete":
            self._socket = info["return_value"]
        elif event.endswith((".connect_tcp.failed", ".start_tls.failed")):
            self._cause = info["exception"].__cause__
        elif self._engine.proxy is not None and self._transmission is not None:
            self._follow_proxy(self._transmission, event, info)

    def _follow_proxy(
        self, transmission: Transmission, event: str, info: Mapping[str, Any]
    ) -> None:
        """Tell which failures are the proxy's: those before the handshake behind it."""
        if event.endswith(".connect_tcp.started"):
            transmission.proxy = f"the proxy {place_of(info['host'], info['port'])}"
        elif event in ("proxy.start_tls.started", "socks.start_tls.started"):
            transmission.proxy = None

    def keep(self) -> None:
        """Give the slot back, and the connection to whoever comes next."""
        connection = cast("httpx.AsyncHTTPTransport", self._connection)
        if _has_unsolicited(connection):
            self.drop()
            return
        self._engine.keep(connection)
        self._engine.leave()

    def drop(self) -> None:
        """Give the slot back at once, and throw the connection away: its state is not known."""
        self._engine.close(_close(self._socket, self._connection))
        self._engine.leave()


async def _close(socket: Any, connection: httpx.AsyncHTTPTransport | None) -> None:
    """Close a connection, and the socket of a TLS handshake that never became one."""
    if socket is not None:
        await socket.aclose()
    if connection is not None:
        await connection.aclose()


class _LeasedStream(httpx.AsyncByteStream):
    """The stream of a reply, which ends its lease when it is closed."""

    def __init__(self, stream: httpx.AsyncByteStream, lease: _Lease) -> None:
        self._stream = stream
        self._lease: _Lease | None = lease
        self._whole = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                yield piece
        except ssl.SSLError as error:
            raise httpx.ReadError("TLS failed") from error
        self._whole = True

    async def aclose(self) -> None:
        """Keep the connection, or drop it if the reply was not read to its end."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        if not self._whole:
            lease.drop()
            return
        try:
            await self._stream.aclose()
        except BaseException:
            lease.drop()
            raise
        lease.keep()


def _has_unsolicited(connection: Any) -> bool:
    """Tell whether more was read than a reply, which would be taken for the next request's.

    It may lie with h11, with TLS or with anyio, and no public way leads there. If the way has
    changed with one of their releases, it is yes: a new connection costs less than a wrong reply.
    """
    try:
        for part in connection._pool.connections:  # noqa: SLF001 - see above
            while not hasattr(part, "_h11_state"):
                part = part._connection  # noqa: PLW2901, SLF001
            if part._h11_state.trailing_data[0]:  # noqa: SLF001
                return True
            stream = part._network_stream._stream  # noqa: SLF001
            while hasattr(stream, "transport_stream"):
                if stream._read_bio.pending:  # noqa: SLF001
                    return True
                stream = stream.transport_stream
            if stream._protocol.read_queue:  # noqa: SLF001
                return True
    except AttributeError:
        return True
    return False
