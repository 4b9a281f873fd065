"""What a call gives to a transport, and what the transport reports."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

import httpx

from gateway_sdk._http.reply import RawReply
from gateway_sdk._http.request import PreparedRequest, RawHeaders, RequestBase
from gateway_sdk.errors import GatewayError, Phase
from gateway_sdk.rate_limit import RateLimiter

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

LONG: Final = 1.0
"""Seconds of waiting after which the token of a request may have expired."""


def hide_frames(error: BaseException) -> None:
    """Take the frames off an error, unless code is to be corrected: their variables are secret."""
    if isinstance(error, GatewayError | httpx.HTTPError | asyncio.CancelledError):
        error.__traceback__ = None


class OurError(httpx.TransportError):
    """An error with a text of ours; unlike httpx's texts, it shows nothing of a reply."""

    def __init__(self, text: str, *, is_permanent: bool = False) -> None:
        super().__init__(text)
        self.is_permanent = is_permanent  # asking again does not help


class UnreadableReplyError(OurError, httpx.RemoteProtocolError):
    """A reply of our engine that cannot be read."""


class TunnelError(OurError, httpx.ProxyError):
    """A refusal of a proxy; its text ends a sentence that begins with the proxy."""


class SilentNetworkError(httpx.ReadTimeout):
    """The peer's system acknowledges nothing any more: a wait ends before its time."""


class Transmission:
    """What becomes of one attempt to send a request."""

    # Whether a byte may have been sent. The engine sets it before the first byte; with another
    # transport, it is true from the start.
    sent = False
    # Raises if the deadline of the call has passed; called right before the first byte leaves.
    check: Callable[[], None] = staticmethod(lambda: None)
    is_once = False  # whether it does harm to send the request twice
    forwarded = False  # whether a proxy reads the request, so that the reply may be its own
    proxy: str | None = None  # "the proxy HOST:PORT", while the engine talks to the proxy only
    status: int | None = None  # once the head of the reply has arrived
    waits_for: Phase | None = None  # if it is neither the connection nor the reply
    slot_wait: float = 0.0  # seconds for a slot
    rate_wait: float = 0.0  # seconds under the rate limit
    # Awaited when nothing is left to wait for but a connection, the first one only after `LONG`; if
    # one raises, nothing is sent.
    on_waited: Callable[[], Awaitable[None]] | None = None
    on_admitted: Callable[[], Awaitable[None]] | None = None
    on_sent: Callable[[], None] | None = None  # once, when the first byte leaves or none will
    is_awaited = False  # whether our own transport inside the user's client sets `sent`
    # What that transport raised before it had sent anything. Whoever
    # catches it there may send the request in another way, so another error proves nothing.
    failed_unsent: BaseException | None = None

    def is_unsent(self, error: BaseException) -> bool:
        """Tell whether nothing was sent in the attempt that ended with this error."""
        return not self.sent or error is self.failed_unsent

    @property
    def phase(self) -> Phase:
        """What the attempt waits for now."""
        return self.waits_for or ("reply" if self.sent else "connection")

    async def admit(self, limiter: RateLimiter | None) -> None:
        """Pass a limiter, and note how long the request waited."""
        if limiter is not None:
            loop = asyncio.get_running_loop()
            began, self.waits_for = loop.time(), "rate_limit"
            try:
                await limiter.enter()
            finally:
                self.rate_wait += loop.time() - began
            self.on_sent, self.waits_for = limiter.begin, None
        if self.on_waited is not None and self.slot_wait + self.rate_wait > LONG:
            await self.on_waited()
        if self.on_admitted is not None:
            await self.on_admitted()

    def end_turn(self) -> None:
        """Tell the rate limit that the request is sent now, or will not be."""
        on_sent, self.on_sent = self.on_sent, None
        if on_sent is not None:
            on_sent()


@dataclass(slots=True, eq=False, repr=False)
class Request:
    """One attempt to send a prepared request."""

    prepared: PreparedRequest
    base: RequestBase  # the prepared one's, or one with other fields
    fields: RawHeaders  # in addition to those of `base`
    timeout: httpx.Timeout
    transmission: Transmission


class Transport(Protocol):
    """What sends the requests of a session: our engine, or what the user gave."""

    async def prepare(self) -> None: ...

    async def connect(self, request: Request) -> bool: ...

    async def exchange(self, request: Request) -> RawReply: ...

    async def aclose(self) -> None: ...
