"""What a call gives to an engine, and what the engine reports of it."""

from abc import abstractmethod
from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import Final

import httpx

EXTENSION: Final = "gateway_sdk.transmission"
"""The key of `Transmission` in the extensions of an `httpx.Request`."""


@dataclass(slots=True)
class Transmission:
    """How far one attempt got.

    Attributes:
        sent: Whether a byte of the request may have left. An engine that can tell sets it in
            time; for a transport that cannot, it is true from the start.
        forwarded: Whether a proxy reads the request and hands it on, so that a reply may be its
            own. A tunnel does not.
        proxy: The proxy, as "the proxy HOST:PORT", while the engine deals with it and not with the
            gateway; else None.
        status: The HTTP status, once the head of the reply is there.
        slot_wait: Seconds for which the request waited for a slot.
        rate_wait: Seconds for which the request waited for its turn under a rate limit.
    """

    sent: bool
    forwarded: bool = False
    proxy: str | None = None
    status: int | None = None
    slot_wait: float = 0.0
    rate_wait: float = 0.0


@dataclass(slots=True, eq=False, repr=False)
class DirectRequest:
    """A request as it goes over the wire.

    Attributes:
        method: As in `httpx.Request`.
        url: Where to.
        fields: All header fields, in their order.
        content: Its pieces; the engine does not close it.
        length: Bytes of the content; None to send it in chunks.
        timeout: The time-outs of its phases.
        transmission: Is told how far it got.
    """

    method: str
    url: httpx.URL
    fields: list[tuple[bytes, bytes]]
    content: AsyncIterable[bytes]
    length: int | None
    timeout: httpx.Timeout
    transmission: Transmission


@dataclass(slots=True, eq=False, repr=False)
class DirectResponse:
    """A reply whose head has come; the attributes are those of `httpx.Response`."""

    status_code: int
    headers: httpx.Headers
    stream: httpx.AsyncByteStream


class DirectTransport(httpx.AsyncBaseTransport):
    """A transport that can be used without httpx's objects, too."""

    @abstractmethod
    async def exchange(self, request: DirectRequest) -> DirectResponse:
        """Send a request and return its reply.

        Raises:
            httpx.TransportError: as from `handle_async_request`.
        """
