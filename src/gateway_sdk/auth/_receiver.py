"""The loopback receiver: it listens on this machine for the response to one login."""

import asyncio
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import urlsplit

import httpx

from gateway_sdk._checks import check_seconds
from gateway_sdk._url import is_loopback, parse_url
from gateway_sdk.auth._callback_handler import (
    CallbackHandler,
    CallbackReply,
    CallbackRequest,
    StartAddress,
)
from gateway_sdk.auth._loopback import close_all, is_other_user, listen, serve
from gateway_sdk.errors import (
    ConfigurationError,
    LoginTimeoutError,
    SessionStateError,
)

T = TypeVar("T")

DEFAULT_REDIRECT_URI: Final = "http://127.0.0.1:0/callback"
DEFAULT_LOGIN_TIMEOUT: Final = 300.0
"""Seconds for the user to log in: enough to find a second factor."""

_MAX_CONNECTIONS: Final = 16
"""At a time. A new one closes the oldest: refusing new ones could shut out the browser."""

_CONNECTION_TIMEOUT: Final = 10.0
"""Seconds for one request and its reply."""

# RFC 3986, 3.3, without what the URL Standard rewrites: dot segments, encoded or not, and an empty
# first segment, which the page's request would take for a host.
_KEPT_PATH: Final = re.compile(
    r"(?!//)(?:/(?!(?:\.|%2e){1,2}(?:/|$))(?:[\w.~!$&'()*+,;=:@-]|%[0-9a-f]{2})*)*",
    re.ASCII | re.IGNORECASE,
)

CANNOT_LISTEN: Final = (
    "redirect_uri is not http on this machine, such as http://127.0.0.1:0/callback: a response "
    "sent there can only be pasted"
)


class LoopbackReceiver:
    """Listens for the response to one login, while it is open.

    async with LoopbackReceiver() as receiver:
        attempt = flow.start(receiver.redirect_uri)
        open_browser(receiver.start_url(attempt.url))
        token = await receiver.receive(partial_finish)

    Attributes:
        redirect_uri: The redirect URI with its actual port; set when the receiver is open.
    """

    redirect_uri: str

    def __init__(
        self, redirect_uri: str = DEFAULT_REDIRECT_URI, *, bind: str | None = None
    ) -> None:
        """Check the arguments; nothing is opened.

        Args:
            redirect_uri: http on this machine, with any path; port 0 takes a free one, which
                authorization servers must accept for 127.0.0.1 and ::1 (RFC 8252, 7.3). A login
                deletes what other pages at its port have stored in the browser: a service worker or
                a cached page among it could take the response.
            bind: The IP address to listen at instead of the one in redirect_uri, such as 0.0.0.0
                in a container whose port is forwarded. Every program that can reach it can send
                responses.

        Raises:
            ConfigurationError: redirect_uri is not http on this machine.
        """
        if not can_listen(redirect_uri):
            raise ConfigurationError(CANNOT_LISTEN)
        self._url = httpx.URL(redirect_uri)
        self._given = redirect_uri
        self._bind = bind
        self._sockets: list[socket.socket] = []
        self._path = self._url.raw_path.partition(b"?")[0].decode("ascii")
        self._starts: list[StartAddress] = []
        self._connections: dict[asyncio.Task[None], None] = {}

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            ReceiverUnavailableError: the address is in use or not available.
        """
        self._sockets = listen(self._url, self._bind)
        if self._url.port == 0:
            port = self._sockets[0].getsockname()[1]
            self._url = self._url.copy_with(port=port)
            self._given = str(self._url)
        self.redirect_uri = self._given  # unchanged, as it is registered
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        close_all(self._sockets)
        self._sockets = []

    def start_url(self, authorization_url: str) -> str:
        """Return a URL of this receiver for one browser, which leads on to the authorization URL.

        Only a browser that opened such a URL can end the login. Each can be opened once: a
        second opening ends the login with an error. Call this again for each further way to a
        browser.

        Raises:
            SessionStateError: the receiver is not open.
        """
        self._must_be_open()
        start = StartAddress(authorization_url, self._path)
        self._starts.append(start)
        return f"http://{authority_of(self._url)}{start.path}"

    async def receive(
        self,
        finish: Callable[[str, str], T],
        *,
        timeout: float | None = DEFAULT_LOGIN_TIMEOUT,  # noqa: ASYNC109 - its error says what happened
    ) -> T:
        """Wait for the response to this login, and return the result of `finish`.

        Call `start_url` before.

        Args:
            finish: Reads a response's fragment and query. If it raises StateMismatchError, the
                response is refused and the wait continues; any other result ends the wait.
            timeout: Seconds; None for no limit.

        Raises:
            LoginTimeoutError: the login was not finished in time.
            LoginError: as `finish` raises it, or a start URL was opened twice.
            SessionStateError: the receiver is not open, or no start URL was made.
        """
        check_seconds("timeout", timeout)
        self._must_be_open()
        if not self._starts:
            raise SessionStateError("no browser can end this login: call start_url() first")
        handler = CallbackHandler(authority_of(self._url), self._path, self._starts, finish)
        over = asyncio.Event()
        connected = partial(self._connected, handler, over)
        # Started below: if the start were cancelled here, the server would never be closed.
        servers = [
            await asyncio.start_server(connected, sock=listener, start_serving=False)
            for listener in self._sockets
        ]
        self._sockets = []
        try:
            async with asyncio.timeout(timeout):
                for server in servers:
                    await server.start_serving()
                await over.wait()
        except TimeoutError:
            if not handler.is_done:  # otherwise the response came at the last moment
                raise timed_out(timeout, handler.refused) from None
        finally:
            over.set()
            await self._close(servers)
        return handler.result()

    def _must_be_open(self) -> None:
        if not self._sockets:
            raise SessionStateError("the receiver is not open: use it in `async with`, once")

    def _connected(
        self,
        handler: CallbackHandler[T],
        over: asyncio.Event,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Serve a connection in its own task; if there are too many, close the oldest."""
        if over.is_set():  # accepted in the same turn of the event loop in which the wait ended
            writer.transport.abort()
            return
        served = [task for task in self._connections if not task.cancelling()]
        if len(served) >= _MAX_CONNECTIONS:
            served[0].cancel()

        def done(task: asyncio.Task[None]) -> None:
            del self._connections[task]
            writer.transport.abort()

        task = asyncio.create_task(_serve(handler, over, reader, writer))
        self._connections[task] = None
        task.add_done_callback(done)

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


async def _serve(
    handler: CallbackHandler[T],
    over: asyncio.Event,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    def replied() -> None:
        if handler.is_done:
            over.set()

    reply_to_head = _refuse_user if _is_refused(writer) else handler.reply_to_head
    try:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CONNECTION_TIMEOUT):
                await serve(reader, writer, reply_to_head, handler.reply_to_body, replied)
    finally:
        replied()  # also if the browser left before the reply


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


def timed_out(seconds: float | None, refused: int = 0) -> LoginTimeoutError:
    """Return the error for a login that was not finished in time."""
    text = f"the login was not finished within {seconds:g} s"
    if refused:
        responses = "a response" if refused == 1 else f"{refused} responses"
        text += f"; {responses} of other logins came"
    return LoginTimeoutError(text, refused=refused)


def can_listen(redirect_uri: str) -> bool:
    url = parse_url("redirect_uri", redirect_uri, any_port=True)
    if "#" in redirect_uri:
        raise ConfigurationError(
            "has a fragment: the response needs that place", setting="redirect_uri"
        )
    if not _KEPT_PATH.fullmatch(urlsplit(redirect_uri).path):
        raise ConfigurationError(
            "has a path that browsers change: it may consist of ASCII characters as in "
            "/login/callback, without // at its start and without /./ and /../",
            setting="redirect_uri",
        )
    return url.scheme == "http" and is_loopback(url.host)


def authority_of(url: httpx.URL) -> str:
    """Return host and port as browsers write them: they shorten IPv6 addresses."""
    if ":" in url.host:
        url = url.copy_with(host=ip_address(url.host).compressed)
    return url.netloc.decode("ascii")
