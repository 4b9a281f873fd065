"""Serving on a socket: the only module that loads uvicorn."""

import asyncio
import signal
import socket
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

import uvicorn
from anyio import CancelScope
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from gateway_sdk.sandbox._faults import CLOSE_CONNECTION

# Seconds. Long, so that a test does not lose an idle connection while it waits in a debugger.
KEEP_ALIVE = 3600
# Seconds for clients to read what was already sent to them.
GRACE = 1


class _Protocol(H11Protocol):
    """uvicorn's HTTP/1.1 whose app can close the connection, without an access log."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.access_log = False
        app = self.app

        async def app_with_close(scope: Scope, receive: Receive, send: Send) -> None:
            # Only `_Server.shutdown` cancels; uvicorn would log the cancellation as a failure.
            with suppress(asyncio.CancelledError):
                await app(
                    {**scope, "extensions": {CLOSE_CONNECTION: transport.close}}, receive, send
                )

        self.app = app_with_close


class _Server(uvicorn.Server):
    """uvicorn's server, without its signal handlers; it stops at once."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # A call that a fault delays, or a reply that it sends slowly, must not delay the shutdown.
        for connection in self.server_state.connections:
            connection.transport.close()
        for task in self.server_state.tasks:
            task.cancel()
        await super().shutdown(sockets)


@asynccontextmanager
async def serve(app: ASGIApp, host: str, port: int) -> AsyncGenerator[str]:
    """Serve *app* in the running loop and yield its base URL; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Bound here, because uvicorn ends the process when it cannot bind. The socket listens already:
    # a client that connects before uvicorn has started waits, and is not refused.
    with socket.create_server((host, port), family=family) as listener:
        # For the sockets that it accepts: asyncio does it only for those that name their protocol.
        # Without it the body of a reply waits until the client acknowledges the head: 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # log_config is None (and log_level unset): they change the loggers of the whole process.
        server = _Server(
            uvicorn.Config(
                app,
                http=_Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE,
                timeout_graceful_shutdown=GRACE,
            )
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield _base_url(host, listener.getsockname()[1])
        finally:
            server.should_exit = True
            # A scope of anyio cancels again and again: uvicorn would end without its shutdown.
            with CancelScope(shield=True):
                await serving


def logged(app: ASGIApp, log: Callable[[str], object]) -> ASGIApp:
    async def logged_app(scope: Scope, receive: Receive, send: Send) -> None:
        status, began = "no reply", time.monotonic()

        async def note_status(message: Message) -> None:
            nonlocal status
            status = str(message.get("status", status))
            await send(message)

        try:
            await app(scope, receive, note_status)
        finally:
            duration = 1000 * (time.monotonic() - began)
            # As it was sent: h11 takes no control characters here, and the decoded path may.
            path = scope["raw_path"].decode("ascii")
            log(f"{scope['method']} {path}: {status}, {duration:.0f} ms")

    return logged_app


@contextmanager
def stop_signals() -> Generator[asyncio.Event]:
    """Yield an event that SIGINT and SIGTERM set; restore the previous handlers at the end."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def request_stop(*_: object) -> None:
        loop.call_soon_threadsafe(stop.set)

    stopping = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, request_stop) for number in stopping}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _base_url(host: str, port: int) -> str:
    """Return an address that can be called: "every address" is none, this machine's own one is."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - no bind
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
