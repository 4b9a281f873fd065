"""One connection of the httpx engine: httpcore speaks HTTP over our own connection.

httpcore is imported with this module, which takes about 0.2 s; the engine does so in a thread.
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable
from functools import cache, partial
from typing import Any, Final, Self, cast

import httpcore
import httpx

from gateway_sdk._config import LOGGER
from gateway_sdk._http.pieces import PIECE
from gateway_sdk._transport.connection import MOST_UNREAD, Connection
from gateway_sdk._transport.proxy import forwards
from gateway_sdk._transport.route import Route
from gateway_sdk._transport.transmission import (
    TURN,
    DirectRequest,
    Transmission,
    WatchedPieces,
    stream_of,
)

_HEAD: Final = re.compile(rb"HTTP/1\.\d (\d{3})\b.*?\n\r?\n", re.DOTALL)
_BEGINNING: Final = b"HTTP/1."
_FINAL: Final = range(200, 1000)
_SUCCESS: Final = range(200, 300)

_FAILURES: Final = (httpcore.ProtocolError, httpcore.NetworkError, httpcore.TimeoutException)


class HttpcoreConnection(httpcore.AsyncNetworkBackend, httpcore.AsyncNetworkStream):
    """A connection to the gateway, for one request after the other.

    Attributes:
        connection: The socket; None before it is opened, and if a test replaces the network.
    """

    def __init__(self, url: httpx.URL, ssl_context: ssl.SSLContext, route: Route) -> None:
        self.connection: Connection | None = None
        self._url = url
        self._route = route
        self._forwards = forwards(route.proxy, url)
        self._at = partial(httpcore.URL, scheme=url.raw_scheme, host=url.raw_host, port=url.port)
        self._http = httpcore.AsyncHTTPConnection(
            self._at().origin, ssl_context=ssl_context, network_backend=self
        )

    async def send(self, request: DirectRequest) -> httpcore.Response:
        """Send a request, and return its reply as soon as its head has arrived.

        Raises:
            httpx.TransportError: it failed; `transmission.sent` says whether anything was sent.
        """
        base = request.base
        request.transmission.forwarded = self._forwards
        self._sending = _Sending(request.transmission)
        content: bytes | AsyncIterable[bytes] = request.content
        if not isinstance(content, bytes):
            # After a WriteError httpcore reads the reply.
            content = WatchedPieces(
                content, lambda: self.connection, self._is_overtaken, httpcore.WriteError
            )
        else:
            content = _piece(content) if len(content) <= PIECE else stream_of(content)
        message = httpcore.Request(
            base.method,
            self._at(target=request.target),
            content=content,
            extensions={"timeout": request.timeout.as_dict()},
        )
        # Set, not given: httpcore would look whether each of them is made of bytes.
        message.headers = [*base.fields, *request.fields]
        try:
            return await self._http.handle_async_request(message)
        except _FAILURES as error:
            raise _failure_of_httpx(error) from None

    @property
    def can_be_reused(self) -> bool:
        """Whether a whole reply has come and nothing after it: another request may follow."""
        if self.connection is None or not self._http.is_idle():
            return False
        # After an early refusal h11 takes the request for sent, even if its last chunk was not.
        sending = self._sending
        return not (sending.is_useless or sending.received or _has_excess(self._http))

    def cut(self) -> None:
        """Cut the connection."""
        if self.connection is not None:
            self.connection.abort()

    def _is_overtaken(self) -> bool:
        connection, sending = self._open, self._sending
        if sending.has_begun:
            sending.look(connection)
        return sending.has_begun and (sending.is_useless or connection.is_closing)

    # The interface of httpcore's network backends and streams.

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the gateway: through a proxy if there is one, and with TLS for https."""
        del host, port, local_address, socket_options
        self.connection = await self._route.open(self._url, self._sending.transmission, timeout)
        return self

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's
    ) -> httpcore.AsyncNetworkStream:
        """Do nothing: `connect_tcp` has started TLS already."""
        del ssl_context, server_hostname, timeout
        return self

    def get_extra_info(self, info: str) -> Any:
        """Return None: httpcore needs no details of the connection."""
        del info

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send a piece of a request, unless an early reply makes it unnecessary.

        Raises:
            httpcore.WriteError: it does; httpcore then reads the reply.
            httpx.TransportError: it failed.
        """
        connection, sending = self._open, self._sending
        if sending.head is None:
            sending.head = self._addressed(buffer)  # sent together with the first piece
            return
        if sending.is_cancelled:  # by the content itself; the error is raised at the next wait
            await asyncio.sleep(0)
        if not sending.has_begun:
            if asyncio.get_running_loop().time() >= sending.transmission.deadline:
                await asyncio.sleep(TURN)
            sending.begin(connection)
            buffer = sending.head + buffer
        else:
            sending.look(connection)
        if sending.is_useless or connection.is_closing:
            raise httpcore.WriteError
        if buffer:
            connection.write(buffer)
        while not (connection.can_write or sending.is_useless or connection.is_closing):
            await sending.wait(connection, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Return received bytes, as soon as there are any; b"" at the end.

        Raises:
            httpx.ReadTimeout: no bytes came within these seconds.
            httpx.ReadError: the connection broke.
        """
        data = self._sending.received or await _read(self._open, timeout)
        self._sending.received = data[max_bytes:]
        return data[:max_bytes]

    async def aclose(self) -> None:
        """Cut the connection."""
        self.cut()

    @property
    def _open(self) -> Connection:
        return cast("Connection", self.connection)

    def _addressed(self, head: bytes) -> bytes:
        """Return a head in the form that a forwarding proxy needs (RFC 9112, 3.2.2)."""
        if not self._forwards:
            return head
        method, rest = head.split(b" ", 1)
        line, rest = rest.split(b"\r\n", 1)
        fields = (b"%b: %b\r\n" % field for field in self._route.credentials)
        return b"%b http://%b%b\r\n%b%b" % (method, self._url.netloc, line, b"".join(fields), rest)


class ReplyBody(httpx.AsyncByteStream):
    """The body of a reply as it arrives; when it is closed, it awaits `end`."""

    def __init__(
        self, reply: httpcore.Response, end: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        self._pieces = cast("AsyncIterable[bytes]", reply.stream)
        self._end: Callable[[], Coroutine[Any, Any, None]] | None = end

    def __aiter__(self) -> Self:
        self._next = aiter(self._pieces).__anext__
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece."""
        try:
            return await self._next()
        except _FAILURES as error:
            raise _failure_of_httpx(error) from None

    async def aclose(self) -> None:
        """Await `end`, once."""
        end, self._end = self._end, None
        if end is not None:
            await end()


async def warm_up() -> None:
    """Load the modules that anyio loads at its first use in an event loop (httpcore's locks)."""
    await cast("Any", httpcore.AnyIOBackend)().sleep(0)


class _Sending:
    """One request that is being sent.

    Attributes:
        transmission: Gets `sent`, and the status of an early reply.
        head: The head, which waits for the first piece of the content.
        received: Received bytes of the reply that are not read yet.
        has_begun: Whether the head was sent.
        is_useless: Whether the rest need not be sent: there is a reply with an error status.
    """

    __slots__ = (
        "_cancelled",
        "_is_judged",
        "_task",
        "has_begun",
        "head",
        "is_useless",
        "received",
        "transmission",
    )

    def __init__(self, transmission: Transmission) -> None:
        self.transmission = transmission
        self.head: bytes | None = None
        self.received = b""
        self.has_begun = self.is_useless = self._is_judged = False
        self._task = cast("asyncio.Task[object]", asyncio.current_task())
        self._cancelled = self._task.cancelling()

    @property
    def is_cancelled(self) -> bool:
        """Whether the caller was cancelled since."""
        return self._task.cancelling() > self._cancelled

    def begin(self, connection: Connection) -> None:
        """Set `sent`; refuse a connection that is closed, or has received bytes already.

        Raises:
            httpx.ConnectError: nothing was sent.
        """
        if connection.is_closing or connection.take():
            raise httpx.ConnectError("the connection was closed") from connection.failure
        self.has_begun = self.transmission.sent = True
        if self.transmission.on_sent is not None:
            self.transmission.end_turn()

    def look(self, connection: Connection) -> None:
        """Take received bytes of the reply, up to a limit."""
        if len(self.received) <= MOST_UNREAD and (data := connection.take()):
            self.received += data
            self._judge()

    async def wait(self, connection: Connection, seconds: float | None) -> None:
        """Wait until the system takes more data, or data arrive.

        Raises:
            httpx.WriteTimeout: neither happened, and there is no reply that could be read instead.
        """
        try:
            await connection.wait_to_write(seconds)
        except TimeoutError:
            if not self._is_judged:
                raise httpx.WriteTimeout("") from None
            self.is_useless = True
        self.look(connection)

    def _judge(self) -> None:
        """Look for the status, after interim replies; an early success does not end the sending."""
        at = 0
        while not self._is_judged and (head := _HEAD.match(self.received, at)):
            status, at = int(head[1]), head.end()
            if status in _FINAL:
                self.transmission.status = status
                self._is_judged, self.is_useless = True, status not in _SUCCESS
        beginning = self.received[at : at + len(_BEGINNING)]
        if not self._is_judged and not _BEGINNING.startswith(beginning):
            self._is_judged = self.is_useless = True


async def _piece(content: bytes) -> AsyncIterator[bytes]:
    """Yield the content, or nothing if it is empty: h11 takes its time for an empty piece too."""
    if content:
        yield content


async def _read(connection: Connection, seconds: float | None) -> bytes:
    try:
        data = await connection.read(seconds)
    except TimeoutError:
        raise httpx.ReadTimeout("") from None
    except OSError as error:
        raise httpx.ReadError(type(error).__name__) from error
    if not data and not connection.is_clean:
        raise httpx.ReadError("the connection was cut")
    return data


def _has_excess(http: Any) -> bool:
    """Tell whether h11 read more than a reply; it would use that as the reply to the next request.

    httpcore has no public way to see it. If a release of httpcore changes its private attributes,
    the answer is yes: a new connection costs less than a wrong reply.
    """
    try:
        return bool(_excess_of(http))
    except AttributeError:
        _warn_once()
        return True


def _excess_of(http: Any) -> bytes:
    excess: bytes = http._connection._h11_state.trailing_data[0]  # noqa: SLF001 - see above
    return excess


@cache
def _warn_once() -> None:
    LOGGER.warning(
        "httpcore %s does not show what it has read: every request has a connection of its own, "
        "which is slow; install another release of httpcore, or take engine='asyncio'",
        httpcore.__version__,
    )


def _failure_of_httpx(error: Exception) -> Exception:
    """Return the error of httpx for an error of httpcore."""
    return cast("Exception", getattr(httpx, type(error).__name__)(str(error)))
