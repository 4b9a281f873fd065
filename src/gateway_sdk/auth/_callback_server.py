"""Serves the receiver's replies at sockets that listen: each connection in a task, all bounded."""

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from gateway_sdk.auth._callback_handler import CallbackHandler, CallbackReply, CallbackRequest
from gateway_sdk.auth._loopback import is_other_user, serve

_MAX_CONNECTIONS: Final = 16
"""At a time. A new one closes the oldest: refusing new ones could shut out the browser."""

_CONNECTION_TIMEOUT: Final = 10.0
"""Seconds for one request and its reply."""


class CallbackServer:
    def __init__(self, handler: CallbackHandler[Any]) -> None:
        self._handler = handler
        self._over = asyncio.Event()
        self._connections: dict[asyncio.Task[None], None] = {}

    async def run(self, sockets: Iterable[socket.socket]) -> None:
        """Serve until it is over, or cancelled; close the sockets and all connections."""
        # Started below: if the start were cancelled here, the server would never be closed.
        servers = [
            await asyncio.start_server(self._connected, sock=listener, start_serving=False)
            for listener in sockets
        ]
        try:
            for server in servers:
                await server.start_serving()
            await self._over.wait()
        finally:
            self._over.set()
            await self._close(servers)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection in its own task; if there are too many, close the oldest."""
        if self._over.is_set():  # accepted in the same turn of the event loop in which it ended
            writer.transport.abort()
            return
        served = [task for task in self._connections if not task.cancelling()]
        if len(served) >= _MAX_CONNECTIONS:
            served[0].cancel()

        def done(task: asyncio.Task[None]) -> None:
            del self._connections[task]
            writer.transport.abort()

        task = asyncio.create_task(self._serve(reader, writer))
        self._connections[task] = None
        task.add_done_callback(done)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handler = self._handler
        reply_to_head = _refuse_user if _is_refused(writer) else handler.reply_to_head
        try:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECTION_TIMEOUT):
                    await serve(reader, writer, reply_to_head, handler.reply_to_body, self._replied)
        finally:
            self._replied()  # also if the browser left before the reply

    def _replied(self) -> None:
        if self._handler.is_done and not self._handler.is_over:
            self._over.set()

    async def _close(self, servers: list[asyncio.Server]) -> None:
        """Stop listening, and close the connections, which browsers may keep open."""
        # `Server.wait_closed` would wait for them without end, from Python 3.12 on.
        # `Server.close` leaves connections open that were accepted in the same turn of the event
        # loop (python/cpython#109564): so the listeners stop accepting first, and it is called
        # last.
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):  # on Windows, where asyncio leaves none open
            for server in servers:
                for listener in server.sockets:
                    loop.remove_reader(listener)
        left = list(self._connections)
        for task in left:
            task.cancel()
        try:
            await asyncio.gather(*left, asyncio.sleep(0), return_exceptions=True)
        finally:
            for server in servers:
                server.close()


def _is_refused(writer: asyncio.StreamWriter) -> bool:
    """Return whether another user has opened a connection, or may have and has left."""
    peer, own, connection = (
        writer.get_extra_info(name) for name in ("peername", "sockname", "socket")
    )
    if peer is None or is_other_user(peer, own):
        return True
    # A connection that was reset has no owner, and what it has sent can still be read. It is
    # looked at last: until now, it may have been reset before its owner was asked for.
    try:
        connection.getpeername()
    except OSError:
        return True
    return False


def _refuse_user(_: CallbackRequest) -> CallbackReply:
    return CallbackReply(403, b"Only the user who started the login may call this address.\n")
