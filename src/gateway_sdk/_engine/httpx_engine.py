"""The httpx engine: one-connection transports behind a gate.

httpx's own pool loses slots for good when waiting callers are cancelled (encode/httpcore#1093)
and looks at every connection on each request. Here the gate does the waiting, so that no pool
ever has a queue; each transport holds one connection, is run by its caller directly, and is
thrown away after any error or cancellation.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

import httpx

from gateway_sdk._config import KEEPALIVE_EXPIRY
from gateway_sdk._engine.gate import Gate
from gateway_sdk._engine.progress import EXTENSION, Progress

_ONE_CONNECTION = httpx.Limits(
    max_connections=1, max_keepalive_connections=1, keepalive_expiry=KEEPALIVE_EXPIRY
)


class HttpxEngine(httpx.AsyncBaseTransport):
    """A transport that is safe to cancel and tells what was sent.

    `ConnectError`, `ConnectTimeout`, `PoolTimeout` and `ProxyError` mean that no byte left.
    """

    def __init__(
        self,
        max_connections: int,
        ssl_context: ssl.SSLContext,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gate = Gate(max_connections)
        self._ssl_context = ssl_context
        self._clock = clock
        self._idle: deque[tuple[httpx.AsyncHTTPTransport, float]] = deque()  # oldest first
        self._closing: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the reply's stream holds a slot until it is closed.

        Raises:
            httpx.PoolTimeout: no slot came free in time.
            httpx.TransportError: as from `httpx.AsyncHTTPTransport`.
        """
        await self._enter(request)
        line = self._idle.pop()[0] if self._idle else self._new_line()
        try:
            _watch(request)
            response = await line.handle_async_request(request)
        except BaseException:
            self.drop(line)
            raise
        stream = _Leased(cast("httpx.AsyncByteStream", response.stream), line, self)
        return httpx.Response(response.status_code, headers=response.headers, stream=stream)

    async def aclose(self) -> None:
        """Close every idle connection, and wait for those that are being closed."""
        while self._idle:
            self._close(self._idle.pop()[0])
        if self._closing:
            await asyncio.wait(self._closing)

    async def _enter(self, request: httpx.Request) -> None:
        """Pass the gate within the time-out for it."""
        if self._gate.free:
            await self._gate.enter()
            return
        seconds = request.extensions.get("timeout", {}).get("pool")
        try:
            async with asyncio.timeout(seconds):
                await self._gate.enter()
        except TimeoutError:
            raise httpx.PoolTimeout("no connection came free", request=request) from None

    def _new_line(self) -> httpx.AsyncHTTPTransport:
        return httpx.AsyncHTTPTransport(
            verify=self._ssl_context, limits=_ONE_CONNECTION, trust_env=False
        )

    def keep(self, line: httpx.AsyncHTTPTransport) -> None:
        """Take back a connection after a whole reply, and let the oldest idle ones go."""
        now = self._clock()
        self._idle.append((line, now))
        while self._idle[0][1] < now - KEEPALIVE_EXPIRY:
            self._close(self._idle.popleft()[0])
        self._gate.leave()

    def drop(self, line: httpx.AsyncHTTPTransport) -> None:
        """Throw a connection away whose state is not known; its slot is free at once."""
        self._close(line)
        self._gate.leave()

    def _close(self, line: httpx.AsyncHTTPTransport) -> None:
        """Close without making the caller wait, who may have been cancelled."""
        task = asyncio.get_running_loop().create_task(line.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def __repr__(self) -> str:
        return f"<HttpxEngine {self._gate!r}, {len(self._idle)} idle>"


class _Leased(httpx.AsyncByteStream):
    """The stream of a reply, and the connection that it comes over."""

    def __init__(
        self, stream: httpx.AsyncByteStream, line: httpx.AsyncHTTPTransport, engine: HttpxEngine
    ) -> None:
        self._stream = stream
        self._line: httpx.AsyncHTTPTransport | None = line
        self._engine = engine
        self._whole = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece
        self._whole = True

    async def aclose(self) -> None:
        """Give the connection back, or throw it away if the reply was not read to its end."""
        line, self._line = self._line, None
        if line is None:
            return
        if not self._whole:
            self._engine.drop(line)
            return
        try:
            await self._stream.aclose()
        except BaseException:
            self._engine.drop(line)
            raise
        self._engine.keep(line)


def _watch(request: httpx.Request) -> None:
    """Have httpcore say when it begins to write, so that `Progress.sent` is true from then on."""
    progress = cast("Progress | None", request.extensions.get(EXTENSION))
    if progress is None:
        return

    async def trace(event: str, _: Mapping[str, Any]) -> None:
        if event == "http11.send_request_headers.started":
            progress.sent = True

    request.extensions["trace"] = trace
