"""One call of each operation, by the operation's name; deadlines and tokens for calls."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from functools import partial
from inspect import get_annotations
from typing import Any, Final

from gateway_sdk import GatewaySession
from gateway_sdk.operations import OPERATIONS

Call = Callable[[GatewaySession], Coroutine[Any, Any, Any]]

IDS: Final = {  # of what a new sandbox has, by placeholder
    "customerId": "customer-0001",
    "walletId": "wallet-0004",
    "orderId": "order-0056",
    "documentId": "document-0001",
    "docid": "document-0001",
}
ARGUMENTS: Final[dict[str, tuple[Any, ...]]] = {
    **{it.name: tuple(map(IDS.get, re.findall(r"{(\w+)}", it.path))) for it in OPERATIONS},
    "create_customer": ({"externalCustomerId": "crm-1815"},),
    "revise_customer": ("customer-0001", {"email": "ada@example.com"}),
    "exchange_rate_series": ("EUR", ["USD", "GBP"], "2026-01-05", "2026-01-06"),
    "order_history": (1, 10),
    "change_document_status": ("document-0001", b"verified"),
    "update_document": ("document-0001", b"scan"),
    "upload_document": (b"scan",),
}


def method_of(gateway: GatewaySession, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    areas = (getattr(gateway, area) for area in get_annotations(GatewaySession))
    (method,) = (getattr(area, name) for area in areas if hasattr(area, name))
    found: Callable[..., Coroutine[Any, Any, Any]] = method
    return found


async def _call(name: str, gateway: GatewaySession) -> Any:
    return await method_of(gateway, name)(*ARGUMENTS[name])


CALLS: Final[dict[str, Call]] = {one.name: partial(_call, one.name) for one in OPERATIONS}


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
