"""The calls of a soak: reads, writes, and documents of every kind."""

from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from gateway_sdk import GatewaySession, Multipart


class Documents:
    """What is uploaded: larger than a piece, so that some of it is cut in its middle."""

    def __init__(self, folder: Path) -> None:
        self.content = bytes(200_000)
        self.path = folder / "document.pdf"
        self.path.write_bytes(self.content)

    async def stream(self) -> AsyncIterator[bytes]:
        """Give the document in pieces."""
        for start in range(0, len(self.content), 50_000):
            yield self.content[start : start + 50_000]


Make = Callable[[GatewaySession, Documents], Coroutine[Any, Any, Any]]

OPERATIONS: Final[dict[str, Make]] = {
    "list_countries": lambda gateway, _: gateway.country_data.list_countries(),
    "balance": lambda gateway, _: gateway.wallet.spot_trading_available_balance(),
    "order_history": lambda gateway, _: gateway.wallet.order_history(page=1, take=10),
    "exchange_rates": lambda gateway, _: gateway.currency.exchange_rate_series(
        base="EUR", symbols="USD", start_date="2026-01-01", end_date="2026-01-31"
    ),
    "cancel_order": lambda gateway, _: gateway.wallet.cancel_order("w-1", "o-1"),
    "create_customer": lambda gateway, _: gateway.customer.create_customer({"customerName": "Ada"}),
    "bytes": lambda gateway, given: gateway.aml.update_document("d-1", given.content),
    "path": lambda gateway, given: gateway.aml.update_document("d-1", given.path),
    "stream": lambda gateway, given: gateway.aml.upload_document(given.stream()),
    "form": lambda gateway, given: gateway.aml.upload_document(
        Multipart({"kind": "scan"}, {"front": given.path})
    ),
}
