"""The httpx engine: httpcore's single connections behind slots of our own.

httpx's own pool loses slots for good when waiting callers are cancelled (encode/httpcore#1093)
and looks at every connection for each request. Here callers wait for slots; each connection is
used by its caller directly, and is cut after any error or cancellation.
"""

import asyncio
import gc
import ssl
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, Final, cast

import httpx

from gateway_sdk._python import safe_repr
from gateway_sdk._transport.pool import Admission, Pool
from gateway_sdk._transport.rate_limit import Limiter
from gateway_sdk._transport.route import Route
from gateway_sdk._transport.transmission import DirectRequest, DirectResponse, DirectTransport

_CONNECTIONS: Final = "gateway_sdk._transport.httpcore_connection"


class HttpxEngine(DirectTransport):
    """A transport that is safe to cancel, and that reports what was sent.

    `ConnectError`, `ConnectTimeout`, `PoolTimeout` and `ProxyError` mean that no byte was sent.
    """

    module: ClassVar[Any] = None
    """The module that makes connections, once it is loaded."""

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
        self._ssl_context = ssl_context
        self._pool = Pool[Any](clock)  # of HttpcoreConnection
        self._route = Route(ssl_context, proxy, made=self._pool.add, lost=self._pool.forget)

    async def prepare(self) -> None:
        """Load the module that makes connections, in a thread: it would block the event loop."""
        if HttpxEngine.module is None:
            HttpxEngine.module = await asyncio.to_thread(load_module)

    async def exchange(self, request: DirectRequest) -> DirectResponse:
        """Send a request; the stream of the reply holds a slot until it is closed.

        Raises:
            httpx.PoolTimeout: no slot became free in time.
            httpx.TransportError: as from `httpx.AsyncHTTPTransport`.
        """
        if self.module is None:
            await self.prepare()
        base, module = request.base, cast("Any", self.module)
        await self._admission.enter(request.timeout.pool, request.transmission)
        connection = None
        try:
            connection = self._pool.take(base.origin)
            if connection is None:
                connection = module.HttpcoreConnection(base.address, self._ssl_context, self._route)
            reply = await connection.send(request)
        except BaseException:
            if connection is not None:
                connection.cut()
            self._admission.leave()
            raise
        finally:
            if request.transmission.on_sent is not None:  # it failed, or a test is the network
                request.transmission.end_turn()
        stream = module.ReplyBody(reply, partial(self._end, reply, connection, base.origin))
        return DirectResponse(reply.status, reply.headers, b"", stream)

    async def aclose(self) -> None:
        """Cut all open connections, and wait until they are closed."""
        await self._pool.aclose()
        await self._admission.aclose()

    async def _end(self, reply: Any, connection: Any, origin: bytes) -> None:
        """Give the slot back, and keep the connection if it can serve another request."""
        try:
            await reply.aclose()  # it makes httpcore ready for another request
        finally:
            if connection.can_be_reused:
                self._pool.keep(connection.connection, origin, connection)
            else:
                connection.cut()
            self._admission.leave()

    @safe_repr
    def __repr__(self) -> str:
        return f"<HttpxEngine {self._admission.slots!r}, {self._pool!r}>"


def load_module() -> Any:
    """Load everything that a first call needs; anyio loads its asyncio part in an event loop.

    Without garbage collection: in the middle of an import there is next to nothing to collect, and
    a full collection would hold all threads for 30 ms, once or twice.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        module = import_module(_CONNECTIONS)
        asyncio.run(module.warm_up())
    finally:
        if is_collecting:
            gc.enable()
    return module
