"""Waiting for a login's answer at an address of this machine."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar

import httpx

from gateway_sdk._config import check_seconds
from gateway_sdk.auth.loopback.address import (
    CANNOT_LISTEN,
    authority_of,
    can_listen,
    close,
    listen,
)
from gateway_sdk.auth.loopback.desk import Desk
from gateway_sdk.errors import ConfigurationError, LoginTimeoutError, SessionStateError

T = TypeVar("T")

DEFAULT_REDIRECT_URI: Final = "http://127.0.0.1:0/callback"
DEFAULT_LOGIN_TIMEOUT: Final = 300.0
"""Seconds for a person to log in: long enough to look for a second factor."""

_MAX_CONNECTIONS: Final = 16
"""At once. The oldest makes room for the next: to refuse newcomers would lock the browser out."""

_CONNECTION_TIMEOUT: Final = 10.0
"""Seconds for one request and its reply."""


class LoopbackReceiver:
    """Listens for the answer to one login, while it is open.

    async with LoopbackReceiver() as receiver:
        attempt = flow.start(receiver.redirect_uri)
        ...
        token = await receiver.receive(partial_finish)

    Attributes:
        redirect_uri: The address, with the port that was found; there once it is open.
    """

    redirect_uri: str

    def __init__(
        self, redirect_uri: str = DEFAULT_REDIRECT_URI, *, bind: str | None = None
    ) -> None:
        """Check everything; nothing is opened.

        Args:
            redirect_uri: http on this machine, with any path; port 0 takes a free one, which
                authorization servers must accept for 127.0.0.1 and ::1 (RFC 8252, 7.3).
            bind: The IP address to listen at in place of the one in redirect_uri, such as 0.0.0.0
                in a container whose port is forwarded. Whoever can reach it can hand in answers.

        Raises:
            ConfigurationError: redirect_uri is not http on this machine.
        """
        if not can_listen(redirect_uri):
            raise ConfigurationError(CANNOT_LISTEN)
        self._url = httpx.URL(redirect_uri)
        self._given = redirect_uri
        self._bind = bind
        self._sockets: list[socket.socket] = []
        self._connections: dict[asyncio.Task[None], None] = {}

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            ReceiverUnavailableError: the address is taken, or not to be had.
        """
        self._sockets = listen(self._url, self._bind)
        if self._url.port == 0:
            port = self._sockets[0].getsockname()[1]
            self._url = self._url.copy_with(port=port)
            self._given = str(self._url)
        self.redirect_uri = self._given  # to the letter, as it is registered
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        close(self._sockets)
        self._sockets = []

    async def receive(
        self,
        finish: Callable[[str, str], T],
        *,
        timeout: float | None = DEFAULT_LOGIN_TIMEOUT,  # noqa: ASYNC109 - whose error says what happened
    ) -> T:
        """Wait for the answer that belongs to this login, and return what it is read as.

        Args:
            finish: Reads an answer's fragment and query. A StateMismatchError turns the answer
                away and the wait goes on; whatever else happens, ends it.
            timeout: Seconds; None for no limit.

        Raises:
            LoginTimeoutError: nobody finished the login in time.
            LoginError: what `finish` raised.
        """
        check_seconds("timeout", timeout)
        if not self._sockets:
            raise SessionStateError("the receiver is not open: use it in `async with`, once")
        path = self._url.raw_path.partition(b"?")[0]
        desk = Desk(authority_of(self._url), path.decode("ascii"), finish)
        over = asyncio.Event()
        connected = partial(self._connected, desk, over)
        # Started below, because a server whose start is cancelled is lost, and not closed.
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
            if not desk.is_over:  # else the answer came in the last moment
                raise timed_out(timeout, desk.refused) from None
        finally:
            over.set()
            await self._close(servers)
        return desk.result()

    def _connected(
        self,
        desk: Desk[T],
        over: asyncio.Event,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Serve a connection in a task of its own, in place of the oldest if there are many."""
        if over.is_set():  # it was accepted in the turn in which the wait ended
            writer.transport.abort()
            return
        served = [task for task in self._connections if not task.cancelling()]
        if len(served) >= _MAX_CONNECTIONS:
            served[0].cancel()

        def done(task: asyncio.Task[None]) -> None:
            del self._connections[task]
            writer.transport.abort()

        task = asyncio.create_task(_serve(desk, over, reader, writer))
        self._connections[task] = None
        task.add_done_callback(done)

    async def _close(self, servers: list[asyncio.Server]) -> None:
        """Stop listening, and close what is left, such as a connection that a browser keeps.

        `Server.wait_closed` would wait for it for ever, from Python 3.12 on. `Server.close` would
        leave who was accepted in the same turn, open and unserved (python/cpython#109564): so
        nobody is accepted any more first, and it comes last.
        """
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):  # on Windows, where asyncio leaves nobody
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
    desk: Desk[T], over: asyncio.Event, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    # Imported here, because only those who wait for a browser need h11.
    from gateway_sdk.auth.loopback.connection import serve  # noqa: PLC0415

    def replied() -> None:
        if desk.is_over:
            over.set()

    try:
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CONNECTION_TIMEOUT):
                await serve(reader, writer, desk.reply, replied)
    finally:
        replied()  # also if the browser left before it heard


def timed_out(seconds: float | None, refused: int = 0) -> LoginTimeoutError:
    """Make the error that says that nobody finished the login in time."""
    text = f"nobody finished the login within {seconds:g} s"
    if refused:
        answers = "answer" if refused == 1 else "answers"
        text += f"; {refused} {answers} came that did not belong to it"
    return LoginTimeoutError(text, refused=refused)
