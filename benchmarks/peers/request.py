"""The one request that every peer sends, and what they have in common."""

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

Call = Callable[[], Awaitable[Any]]
"""Makes one call and returns its reply, decoded."""

Open = Callable[[str, int], AbstractAsyncContextManager[Call]]
"""Opens a client for an address, with so many connections at the most."""

PATH: Final = "/currency/1.0.0/exchangeRateSeries"
TOKEN: Final = "-"  # noqa: S105 - none
BODY: Final = {"base": "EUR", "symbols": "USD", "startDate": "2026-01-02", "endDate": "2026-01-05"}
JSON: Final = json.dumps(BODY, separators=(",", ":")).encode()
HEADERS: Final = {"Authorization": f"Bearer {TOKEN}"}


def check(reply: Any) -> None:
    """Refuse a reply that is not the series; the same for every peer.

    Raises:
        ValueError: it is something else.
    """
    if reply["base"] != BODY["base"]:
        raise ValueError("that is not the reply")
