"""One call of each operation, by the operation's name; deadlines and tokens for calls."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from gateway_sdk import GatewaySession

Call = Callable[[GatewaySession], Coroutine[Any, Any, Any]]

CALLS: Final[dict[str, Call]] = {
    "create_customer": lambda gateway: gateway.customer.create_customer({"customerName": "Ada"}),
    "revise_customer": lambda gateway: gateway.customer.revise_customer("c-1", {"email": "a@b.c"}),
    "exchange_rate_series": lambda gateway: gateway.currency.exchange_rate_series(
        base="EUR", symbols="USD", start_date="2026-01-01", end_date="2026-01-31"
    ),
    "order_history": lambda gateway: gateway.wallet.order_history(page=1, take=10),
    "trading_order_history": lambda gateway: gateway.wallet.trading_order_history("c-1"),
    "spot_trading_available_balance": lambda gateway: (
        gateway.wallet.spot_trading_available_balance()
    ),
    "cancel_order": lambda gateway: gateway.wallet.cancel_order("w-1", "o-1"),
    "change_document_status": lambda gateway: gateway.aml.change_document_status("d-1", "ok"),
    "update_document": lambda gateway: gateway.aml.update_document("d-1", b"scan"),
    "upload_document": lambda gateway: gateway.aml.upload_document(b"scan"),
    "send_webhook": lambda gateway: gateway.kyc.send_webhook(),
    "list_countries": lambda gateway: gateway.country_data.list_countries(),
}


class Renewing:
    """Has a new token whenever one was rejected."""

    def __init__(self, name: str = "token") -> None:
        self._name = name
        self.rejected = 0

    async def token(self, rejected: object = None) -> str:
        self.rejected += rejected is not None
        return f"{self._name}-{self.rejected}"


def pass_deadlines(gateway: GatewaySession) -> None:
    """Let the deadline of every call under way be over, however slow the machine is."""
    for scope in gateway._caller.shared.calls.scopes:
        asyncio.get_running_loop().call_soon(scope.end)
