"""Serving on a socket: the only module that loads uvicorn."""

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress

import uvicorn
from anyio import CancelScope
from anyio.from_thread import start_blocking_portal
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

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
        app, extensions = self.app, {CLOSE_CONNECTION: transport.close}

        async def app_with_close(scope: Scope, receive: Receive, send: Send) -> None:
            # Only `_end` cancels; uvicorn would log the cancellation as a failure.
            with suppress(asyncio.CancelledError):
                await app({**scope, "extensions": extensions}, receive, send)

        self.app = app_with_close


@contextmanager
def serve_in_thread(app: ASGIApp, host: str, port: int) -> Generator[str]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(serve(app, host, port)) as base_url,
    ):
        yield base_url


@asynccontextmanager
async def serve(
    app: ASGIApp, host: str, port: int, log: Callable[[str], object] | None = None
) -> AsyncGenerator[str]:
    """Serve *app* in the running loop and yield its base URL; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as listener:
        # For the sockets that it accepts: asyncio does it only for those that name their protocol.
        # Without it the body of a reply waits until the client acknowledges the head: 40 ms.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # log_config is None (and log_level unset): they change the loggers of the whole process.
        config = uvicorn.Config(
            _logged(app, log) if log else app,
            interface="asgi3",
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        config.load()
        # Without uvicorn's server, which takes signals, and looks ten times a second if it may end.
        state = ServerState()
        server = await asyncio.get_running_loop().create_server(
            lambda: _Protocol(config, state, {}), sock=listener, backlog=config.backlog
        )
        try:
            yield _base_url(host, listener.getsockname()[1])
        finally:
            server.close()
            # A scope of anyio cancels again and again.
            with CancelScope(shield=True):
                await _end(state)


async def _end(state: ServerState) -> None:
    """End all calls: one that a fault delays must not delay the end of the server."""
    for connection in state.connections:
        connection.transport.close()
    for task in state.tasks:
        task.cancel()
    with suppress(TimeoutError):
        async with asyncio.timeout(GRACE):
            while state.connections or state.tasks:  # noqa: ASYNC110 - uvicorn's, without events
                await asyncio.sleep(0.001)
    for connection in state.connections:
        connection.transport.abort()


def _logged(app: ASGIApp, log: Callable[[str], object]) -> ASGIApp:
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


def _base_url(host: str, port: int) -> str:
    """Return an address that can be called: "every address" is none, this machine's own one is."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - no bind
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
