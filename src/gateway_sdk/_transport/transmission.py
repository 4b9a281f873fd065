"""What a call gives to an engine, and what the engine reports."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, cast

import httpx

from gateway_sdk._http.pieces import PIECE
from gateway_sdk._http.request import RawHeaders, RequestBase

if TYPE_CHECKING:
    from gateway_sdk._transport.connection import Connection

EXTENSION: Final = "gateway_sdk.transmission"
"""The key of `Transmission` in the extensions of an `httpx.Request`."""

TURN: Final = 0.01
"""Seconds in which the event loop calls all timers that are due."""
_DECODED: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_NO_TIMEOUTS: Final[Mapping[str, float | None]] = MappingProxyType(
    dict.fromkeys(("connect", "read", "write", "pool"))
)


@dataclass(slots=True)
class Transmission:
    """What is known of one attempt so far.

    Attributes:
        sent: Whether a byte of the request may have been sent. Our engines set it before they send
            the first byte; for other transports it is true from the start.
        forwarded: Whether a proxy reads and forwards the request, so that the reply may be the
            proxy's own. In a tunnel it is not.
        proxy: The proxy, as "the proxy HOST:PORT", while the engine talks to the proxy and not to
            the gateway; otherwise None.
        status: The HTTP status, once the head of the reply has arrived.
        slot_wait: Seconds for which the request waited for a slot.
        rate_wait: Seconds for which the request waited for its turn under a rate limit.
        on_sent: To be called once, when the first byte leaves or none will; None without a rate
            limit.
        deadline: When the call is cancelled, by the loop's clock. If that has passed before the
            first byte leaves, because the event loop was busy, the engines wait for `TURN`.
    """

    sent: bool
    forwarded: bool = False
    proxy: str | None = None
    status: int | None = None
    slot_wait: float = 0.0
    rate_wait: float = 0.0
    on_sent: Callable[[], None] | None = None
    deadline: float = inf

    def end_turn(self) -> None:
        """Tell the rate limit that the request is sent now, or will not be."""
        on_sent, self.on_sent = self.on_sent, None
        if on_sent is not None:
            on_sent()


@dataclass(slots=True, eq=False, repr=False)
class DirectRequest:
    """A request as it goes over the wire.

    Attributes:
        base: The method, the server and the first header fields.
        target: The path and the query, percent-encoded.
        fields: All other header fields, in their order.
        content: Bytes, or a stream of pieces, which the engine does not close.
        length: Bytes of the content; None to send it in chunks.
        timeout: The time-outs of its phases.
        transmission: Gets what happens to the request.
    """

    base: RequestBase
    target: bytes
    fields: RawHeaders
    content: bytes | httpx.AsyncByteStream
    length: int | None
    timeout: httpx.Timeout
    transmission: Transmission


@dataclass(slots=True, eq=False, repr=False)
class DirectResponse:
    """A reply whose head has arrived.

    Attributes:
        status: The HTTP status.
        fields: The header fields, in their order.
        body: The body, if all of it has arrived.
        stream: The rest of the body, which the caller must close; None if `body` is complete.
    """

    status: int
    fields: RawHeaders
    body: bytes
    stream: httpx.AsyncByteStream | None


class DirectTransport(httpx.AsyncBaseTransport):
    """One of our engines: it works without httpx's objects, which take time to make."""

    async def prepare(self) -> None:
        """Load what the first request would otherwise wait for."""

    @abstractmethod
    async def exchange(self, request: DirectRequest) -> DirectResponse:
        """Send a request and return its reply; see `AsyncioEngine` and `HttpxEngine`.

        Raises:
            httpx.TransportError: as from `handle_async_request`.
        """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, as `exchange` does.

        Raises:
            httpx.TransportError: as from `httpx.AsyncHTTPTransport`.
        """
        fields = request.headers.raw
        response = await self.exchange(
            DirectRequest(
                RequestBase(request.method, request.url, fields),
                request.url.raw_path,
                [],
                cast("httpx.AsyncByteStream", request.stream),
                _length_of(fields),
                httpx.Timeout(**{**_NO_TIMEOUTS, **request.extensions.get("timeout", {})}),
                request.extensions.get(EXTENSION) or Transmission(sent=False),
            )
        )
        stream = response.stream or httpx.ByteStream(response.body)
        return httpx.Response(response.status, headers=response.fields, stream=stream)


def _length_of(fields: RawHeaders) -> int | None:
    """Return the length of a request's content in bytes; None if it is sent in chunks."""
    for name, value in fields:
        match name.lower():
            case b"content-length":
                return int(value)
            case b"transfer-encoding":
                return None
            case _:
                pass
    return 0


class _Pieces(httpx.AsyncByteStream):
    """Bytes in pieces, so that cancellation is prompt."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._content), PIECE):
            yield self._content[start : start + PIECE]


def stream_of(content: bytes | httpx.AsyncByteStream) -> httpx.AsyncByteStream:
    """Return the content of a request as a stream, in pieces of no more than `PIECE`."""
    if not isinstance(content, bytes):
        return content
    return httpx.ByteStream(content) if len(content) <= PIECE else _Pieces(content)


class WatchedPieces(AsyncIterator[bytes]):
    """Pieces to send over a connection; the wait for one ends when it is of no use any more.

    Args:
        pieces: They may take any time.
        connection: Returns the connection, when the first piece is asked for; or None.
        is_useless: Tells whether no more pieces are wanted; called when something happens there.
        error: Raised where the wait for a piece was ended.
    """

    __slots__ = (
        "_cancelled",
        "_connection",
        "_error",
        "_is_cut",
        "_is_useless",
        "_next",
        "_pieces",
        "_task",
    )

    def __init__(
        self,
        pieces: AsyncIterable[bytes],
        connection: "Callable[[], Connection | None]",
        is_useless: Callable[[], bool],
        error: type[Exception],
    ) -> None:
        self._pieces = pieces
        self._connection = connection
        self._is_useless = is_useless
        self._error = error
        self._is_cut = False
        self._task = cast("asyncio.Task[object]", asyncio.current_task())
        self._cancelled = self._task.cancelling()

    def __aiter__(self) -> Self:
        # Not before: content that has begun may be impossible to send again.
        self._next = aiter(self._pieces).__anext__
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece."""
        connection = self._connection()
        if connection is None:
            return await self._next()
        connection.on_event = self._look
        try:
            return await self._next()
        except asyncio.CancelledError:
            if not self._is_cut or self._task.cancelling() > self._cancelled + 1:
                raise  # it comes from others
            raise self._error from None
        finally:
            connection.on_event = None
            if self._is_cut:
                self._is_cut = False
                self._task.uncancel()

    def _look(self) -> None:
        """Cancel the wait, as a time-out does: the task itself reads the pieces."""
        if not self._is_cut and self._is_useless():
            self._is_cut = True
            self._task.cancel()


async def send_by_httpx(
    transport: httpx.AsyncBaseTransport, request: DirectRequest, url: httpx.URL
) -> DirectResponse:
    """Send a request through a transport that needs httpx's objects, and return its reply.

    Raises:
        httpx.TransportError: as from `handle_async_request`.
    """
    response = await transport.handle_async_request(
        httpx.Request(
            request.base.method.decode(),
            url,
            headers=[*request.base.fields, *request.fields],
            stream=stream_of(request.content),
            extensions={"timeout": request.timeout.as_dict(), EXTENSION: request.transmission},
        )
    )
    response = unread(response, httpx)
    stream = cast("httpx.AsyncByteStream", response.stream)
    return DirectResponse(response.status_code, response.headers.raw, b"", stream)


def unread(response: Any, library: Any) -> Any:
    """Return a reply whose stream can be read: if it was read already, a new one with its content.

    Reading the stream again would wait for bytes on a connection that serves other requests.
    """
    if not response.is_stream_consumed or isinstance(response.stream, library.ByteStream):
        return response
    return with_content(response, response.content, library)


def with_content(response: Any, content: bytes, library: Any) -> Any:
    """Return a reply with this content, which is decompressed already, in place of its stream."""
    headers = [
        (name, value)
        for name, value in response.headers.multi_items()
        if name.lower() not in _DECODED
    ]
    return library.Response(response.status_code, headers=headers, content=content)
