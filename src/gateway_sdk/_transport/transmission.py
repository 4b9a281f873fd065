"""What a call gives to a transport, and what the transport reports."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, cast

import httpx

from gateway_sdk._http.reply import RawReply, index_of
from gateway_sdk._http.request import PreparedRequest, RawHeaders, RequestBase
from gateway_sdk.rate_limit import Limiter

EXTENSION: Final = "gateway_sdk.transmission"
"""The key of `Transmission` in the extensions of an `httpx.Request`."""

NOT_SENT: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
)
"""The errors that our engine raises when no byte of the request was sent."""


HTTP_2_ONLY: Final = "it speaks HTTP/2 only"
"""The text of an `UnreadableReplyError` that asking again does not help against."""


class UnreadableReplyError(httpx.RemoteProtocolError):
    """A reply of our engine that cannot be read; unlike httpx's texts, it shows nothing of it."""


_DECODED: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class Transmission:
    """What becomes of one attempt to send a request."""

    forwarded = False  # whether a proxy reads the request, so that the reply may be its own
    proxy: str | None = None  # "the proxy HOST:PORT", while the engine talks to the proxy only
    status: int | None = None  # once the head of the reply has arrived
    slot_wait: float = 0.0  # seconds for a slot
    rate_wait: float = 0.0  # seconds under the rate limit
    # Awaited when nothing is left to wait for but a connection; if it raises, nothing is sent.
    on_admitted: Callable[[], Awaitable[None]] | None = None
    on_sent: Callable[[], None] | None = None  # once, when the first byte leaves or none will
    is_awaited = False  # whether our own transport inside the user's client sets `sent`
    # What that transport raised before it had sent anything. Whoever
    # catches it there may send the request in another way, so another error proves nothing.
    failed_unsent: BaseException | None = None

    def __init__(self, *, sent: bool, check: Callable[[], None] = lambda: None) -> None:
        # Whether a byte may have been sent. The engine sets it before the first byte; with another
        # transport, it is true from the start.
        self.sent = sent
        # Raises if the deadline of the call has passed; called right before the first byte leaves.
        self.check = check

    def is_unsent(self, error: BaseException) -> bool:
        """Tell whether nothing was sent in the attempt that ended with this error."""
        return not self.sent or error is self.failed_unsent

    async def enter(self, limiter: Limiter) -> None:
        """Pass a limiter, and note how long the request waited."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            await limiter.enter()
        finally:
            self.rate_wait = loop.time() - began
        self.on_sent = limiter.begin

    def end_turn(self) -> None:
        """Tell the rate limit that the request is sent now, or will not be."""
        on_sent, self.on_sent = self.on_sent, None
        if on_sent is not None:
            on_sent()


class Request:
    """One attempt to send a prepared request."""

    __slots__ = ("base", "fields", "prepared", "timeout", "transmission")

    def __init__(
        self,
        prepared: PreparedRequest,
        fields: RawHeaders,
        timeout: httpx.Timeout,
        transmission: Transmission,
    ) -> None:
        self.prepared: PreparedRequest = prepared
        self.base: RequestBase = prepared.base  # the attempt may have other fields
        self.fields: RawHeaders = fields  # in addition to those of `base`
        self.timeout: httpx.Timeout = timeout
        self.transmission: Transmission = transmission


class Transport(Protocol):
    """What sends the requests of a session: our engine, or what the user gave."""

    async def exchange(self, request: Request) -> RawReply: ...

    async def aclose(self) -> None: ...


async def send_by_httpx(transport: httpx.AsyncBaseTransport, request: Request) -> RawReply:
    base, prepared = request.base, request.prepared
    content = prepared.content
    response = await transport.handle_async_request(
        httpx.Request(
            base.method.decode(),
            base.address.copy_with(raw_path=prepared.target),
            headers=[*base.fields, *request.fields],
            stream=httpx.ByteStream(content) if isinstance(content, bytes) else content,
            extensions={"timeout": request.timeout.as_dict(), EXTENSION: request.transmission},
        )
    )
    response = unread(response, httpx)
    stream = cast("httpx.AsyncByteStream", response.stream)
    fields = response.headers.raw
    return RawReply(response.status_code, fields, index_of(fields), stream)


def unread(response: Any, library: Any) -> Any:
    """Return a reply whose stream can be read: a new one with its content if it was read."""
    # Reading the stream again would wait for bytes on a connection that serves other requests.
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
