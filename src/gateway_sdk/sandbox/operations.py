"""The twelve operations as data: what each is called here, and where it is served."""

from typing import NamedTuple


class Operation(NamedTuple):
    """One row of the interface's table of endpoints."""

    name: str
    method: str
    path: str


# Interface: Endpoints 1-12, in that order. A document whose id is "update" or "status" falls under
# 8 and 9 at once; the interface does not say which wins, here the earlier row does.
OPERATIONS = (
    Operation("create_customer", "POST", "/customer/1.0.0/create"),
    Operation("revise_customer", "POST", "/customer/1.0.0/update/{customerId}/revisions"),
    Operation("exchange_rate_series", "POST", "/currency/1.0.0/exchangeRateSeries"),
    Operation("order_history", "POST", "/wallet/1.0.0/orders"),
    Operation("trading_order_history", "GET", "/wallet/1.0.0/{customerId}/trading-order-history"),
    Operation(
        "spot_trading_available_balance", "GET", "/wallet/1.0.0/spot-trading/available-balance"
    ),
    Operation("cancel_order", "DELETE", "/wallet/1.0.0/{walletId}/orders/{orderId}"),
    Operation("change_document_status", "PUT", "/aml/1.0.0/document/{documentId}/status"),
    Operation("update_document", "PUT", "/aml/1.0.0/document/update/{docid}"),
    Operation("upload_document", "POST", "/aml/1.0.0/document/upload"),
    Operation("send_webhook", "POST", "/kyc/1.0.0/webhook"),
    Operation("list_countries", "POST", "/countrydata/1.0.0/listData"),
)
OPERATION_NAMES = tuple(operation.name for operation in OPERATIONS)
