"""The receiver's network: its sockets, the user behind a connection, HTTP, and kept ports.

A connection has one request and one reply. All is bounded: connections, seconds and bytes.
"""

import asyncio
import errno
import os
import socket
import threading
import time
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar
from weakref import WeakSet

import h11
import httpx

from gateway_sdk._peer import family_of, may_be_other_user
from gateway_sdk.auth._login.handler import (
    BY_TLS,
    TOO_LONG,
    CallbackHandler,
    CallbackRequest,
    reply_with,
)
from gateway_sdk.auth.source import DEFAULT_LOGIN_TIMEOUT
from gateway_sdk.errors import ReceiverUnavailableError

T = TypeVar("T")

_NO_ADDRESS: Final = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})
"""What systems without IPv6 say, as many containers are."""

_listening: Final[WeakSet[socket.socket]] = WeakSet()
"""All sockets, of all receivers, and their copies."""


def listen(url: httpx.URL, bind: str | None) -> list[socket.socket]:
    # `localhost` means 127.0.0.1 and ::1, and browsers use either. Both are taken: otherwise
    # another program could listen at the second one (RFC 8252, 8.3).
    port = 80 if url.port is None else url.port
    hosts = [bind] if bind else ["127.0.0.1", "::1"] if url.host == "localhost" else [url.host]
    listeners: list[socket.socket] = []
    for host in hosts:
        try:
            listeners.append(_listen(host, port))
        except OSError as error:
            if listeners and error.errno in _NO_ADDRESS:
                continue
            close_all(listeners)
            problem = f"cannot listen at port {port} of {host}: {error.strerror}"
            if error.errno == errno.EADDRINUSE:
                problem = (
                    f"port {port} of {host} is in use, perhaps by another login: finish or stop "
                    "it, or use a redirect URI with another port"
                )
            raise ReceiverUnavailableError(problem) from None
        port = listeners[0].getsockname()[1]
    return listeners


def copy_all(sockets: Iterable[socket.socket]) -> list[socket.socket]:
    copies = [listener.dup() for listener in sockets]
    _listening.update(copies)
    return copies


def close_all(sockets: Iterable[socket.socket]) -> None:
    for listener in sockets:
        listener.close()


def _listen(host: str, port: int) -> socket.socket:
    listener = socket.socket(family_of(host), socket.SOCK_STREAM)
    try:
        # SO_REUSEADDR makes a fixed port available again at once. On Windows it would let other
        # programs share the port, so there the opposite option is set.
        option = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
        listener.setsockopt(socket.SOL_SOCKET, option, 1)
        if listener.family is socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    _listening.add(listener)
    return listener


_MAX_HEAD: Final = 256 * 1024
"""Bytes of a request's head: cookies go to all ports, and each program of this machine has some."""

_MAX_BODY: Final = 256 * 1024
"""Bytes of a request's body: enough to find the state of a response that is too long. As many are
discarded after it, so that a client that is still sending can read the reply."""

_PIECE: Final = 16 * 1024

_CONTENT_TOO_LONG: Final = 413
_TOO_LONG: Final = (_CONTENT_TOO_LONG, 431)
_TLS: Final = b"\x16\x03"  # how a handshake begins


async def _read_request(http: h11.Connection, reader: asyncio.StreamReader) -> CallbackRequest:
    head = await _next(http, reader)
    if not isinstance(head, h11.Request):
        raise EOFError  # noqa: TRY004 - not a wrong type, but the end of the connection
    body = bytearray()
    while isinstance(event := await _next(http, reader), h11.Data):
        body += event.data
        if len(body) > _MAX_BODY:
            raise h11.RemoteProtocolError("too long", error_status_hint=_CONTENT_TOO_LONG)
    method, target = head.method.decode("ascii"), head.target.decode("latin-1")
    headers = httpx.Headers(list(head.headers), encoding="latin-1")
    return CallbackRequest(method, target, headers, bytes(body))


async def _next(http: h11.Connection, reader: asyncio.StreamReader) -> object:
    while (event := http.next_event()) is h11.NEED_DATA:
        http.receive_data(await reader.read(_PIECE))
    return event


async def _discard_rest(reader: asyncio.StreamReader) -> None:
    remaining = _MAX_BODY
    while remaining > 0 and (piece := await reader.read(_PIECE)):
        remaining -= len(piece)


_MAX_CONNECTIONS: Final = 16
"""At a time. A new one closes the oldest: refusing new ones could shut out the browser."""

_CONNECTION_TIMEOUT: Final = 10.0
"""Seconds for one request and its reply."""


class CallbackServer:
    def __init__(self, handler: CallbackHandler, *, is_kept: bool = False) -> None:
        self._handler = handler
        self._is_kept = is_kept  # it serves until it is cancelled
        self._over = asyncio.Event()
        self._connections: dict[asyncio.Task[None], None] = {}

    async def run(self, sockets: Iterable[socket.socket]) -> None:
        """Serve until it is over, or cancelled, and close the sockets."""
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

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection; if there are too many, close the oldest."""
        task: Any = asyncio.current_task()
        served = [other for other in self._connections if not other.cancelling()]
        if len(served) >= _MAX_CONNECTIONS:
            served[0].cancel()
        self._connections[task] = None
        try:
            if not self._over.is_set():  # else accepted in the same turn in which it ended
                # asyncio would report that the task was cancelled.
                with suppress(OSError, TimeoutError, asyncio.CancelledError):
                    async with asyncio.timeout(_CONNECTION_TIMEOUT):
                        await self._reply(reader, writer)
        finally:
            del self._connections[task]
            writer.transport.abort()
            self._replied()  # also if the browser left before the reply

    async def _reply(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        is_refused, with_body = may_be_other_user(writer.get_extra_info("socket")), True
        try:
            request = await _read_request(http, reader)
            with_body = request.method != "HEAD"
            reply = self._handler.reply(request, of_another_user=is_refused)
        except h11.RemoteProtocolError as error:
            is_tls = http.trailing_data[0].startswith(_TLS)
            if is_tls or error.error_status_hint in _TOO_LONG:
                self._handler.refuse(BY_TLS if is_tls else TOO_LONG)
            reply = reply_with(error.error_status_hint, text="This request cannot be read.\n")
        except EOFError:  # browsers open connections in advance and close them unused
            return
        headers = [*reply.headers.raw, (b"Connection", b"close")]
        head = http.send(h11.Response(status_code=reply.status_code, headers=headers)) or b""
        writer.write(head + (reply.content if with_body else b""))
        await writer.drain()
        writer.write_eof()
        self._replied()
        await _discard_rest(reader)

    def _replied(self) -> None:
        if self._handler.result.done() and not self._is_kept:
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


# A login that ended without a response may still have an open tab, whose response, with a token,
# goes to whoever listens at the port. So the port is kept for some minutes: by a page that throws
# the response away.
KEPT_SECONDS: Final = DEFAULT_LOGIN_TIMEOUT
MOST_KEPT: Final = 8
"""Ports at a time; one more closes the oldest. A program that cancels logins leaves no more."""

_CAN_SHARE: Final = os.name != "nt"
"""Windows' loop takes no socket that it, or another loop, has served before."""

# The kept ports, the oldest first, and the tasks that serve them; only the thread changes them.
kept_ports: dict[object, tuple[list[socket.socket], asyncio.Task[None]]] = {}


def wait_for_kept_ports() -> None:
    """Wait until no port is kept any more."""
    while kept_ports:
        time.sleep(0.1)  # Ctrl-C ends it


def take_port(place: object) -> list[socket.socket]:
    """Return the sockets of a kept port for another login; none if it is free now."""
    return _run(_take(place)) if kept_ports else []


def keep_port(place: object, sockets: list[socket.socket], handler: CallbackHandler) -> None:
    """Keep the port of a login, behind a page that throws its response away."""
    handler.result.cancel()
    _run(_keep(place, sockets, handler))


async def _keep(place: object, sockets: list[socket.socket], handler: CallbackHandler) -> None:
    if len(kept_ports) >= MOST_KEPT:
        close_all(await _take(next(iter(kept_ports))))
    kept_ports[place] = sockets, asyncio.create_task(_serve(place, sockets, handler))


async def _take(place: object) -> list[socket.socket]:
    if place not in kept_ports:  # another login has taken it, or its time is over
        return []
    sockets, serving = kept_ports.pop(place)
    taken = copy_all(sockets) if _CAN_SHARE else []  # before the server closes them
    serving.cancel()
    await asyncio.wait([serving])
    return taken


async def _serve(place: object, sockets: list[socket.socket], handler: CallbackHandler) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(KEPT_SECONDS):
            await CallbackServer(handler, is_kept=True).run(sockets)
    kept_ports.pop(place, None)


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the thread, and wait for it: the thread never waits for others."""
    return asyncio.run_coroutine_threadsafe(coroutine, _thread(os.getpid())).result()


@cache
def _thread(_: int) -> asyncio.AbstractEventLoop:
    """Start the process's thread, and return its event loop; a fork has its own."""
    loop = asyncio.SelectorEventLoop()  # not Windows' usual one, see _CAN_SHARE
    threading.Thread(target=loop.run_forever, name="gateway_sdk-ports", daemon=True).start()
    return loop


def _forget_ports() -> None:
    """Close what a fork has of its parent: no task serves it there."""
    close_all(list(_listening))
    kept_ports.clear()


getattr(os, "register_at_fork", dict)(after_in_child=_forget_ports)  # Windows has no forks
