"""What an engine reports to the call that it works for."""

from dataclasses import dataclass
from typing import Final

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
    """

    sent: bool
    forwarded: bool = False
    proxy: str | None = None
    status: int | None = None
