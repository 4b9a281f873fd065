"""The interface as data: the operations, each with its source. No logic here.

All header fields of a request are made in `_http/request.py`, but for the access token and those
of observers, which `_call/call.py` adds to each attempt.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from gateway_sdk import models
from gateway_sdk.outcome import Repeatability

if TYPE_CHECKING:
    from gateway_sdk.models import Country

T_co = TypeVar("T_co", covariant=True)


class Header(Enum):
    """Whether an operation sends a header of the interface."""

    NEVER = "never"
    IF_CONFIGURED = "if configured"
    ALWAYS = "always"


class Content(Enum):
    """The type of body that an operation takes."""

    NONE = "none"
    JSON = "JSON"
    ANY = "any type of entity body"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[T_co]):
    """One operation of the gateway.

    Attributes:
        name: The name of its coroutine method; errors, logs and hooks use it too.
        method: The HTTP method.
        path: The path below the base URL, placeholders in braces.
        repeatability: The effect of sending it twice.
        reply: The type of the success body: Any where the interface leaves it open, None where
            no body is read.
        tenant_id: Whether it sends the header tenantId.
        token_header: Whether it sends the header token.
        content: The type of its body.
    """

    name: str
    method: str
    path: str
    repeatability: Repeatability
    reply: Any = Any
    tenant_id: Header = Header.IF_CONFIGURED
    token_header: Header = Header.IF_CONFIGURED
    content: Content = Content.NONE


class _Countries:
    """A list of `Country`, whose model is loaded when the first reply is read."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return handler.generate_schema(list[models.Country])


# Interface: Endpoints 1; Authentication 3; Endpoints rule 1
CREATE_CUSTOMER: Final[Operation[Any]] = Operation(
    name="create_customer",
    method="POST",
    path="/customer/1.0.0/create",
    repeatability=Repeatability.ONCE,
    tenant_id=Header.ALWAYS,
    token_header=Header.NEVER,
    content=Content.JSON,
)

# Interface: Endpoints 2; Authentication 3
REVISE_CUSTOMER: Final[Operation[Any]] = Operation(
    name="revise_customer",
    method="POST",
    path="/customer/1.0.0/update/{customerId}/revisions",
    repeatability=Repeatability.ONCE,
    content=Content.JSON,
)

# Interface: Endpoints 3; Authentication 3. A POST that only reads: it asks for a series.
EXCHANGE_RATE_SERIES: Final[Operation[Any]] = Operation(
    name="exchange_rate_series",
    method="POST",
    path="/currency/1.0.0/exchangeRateSeries",
    repeatability=Repeatability.READ,
    tenant_id=Header.NEVER,
    token_header=Header.NEVER,
    content=Content.JSON,
)

# Interface: Endpoints 4; Authentication 3. A POST that only reads: it asks for a page.
ORDER_HISTORY: Final[Operation[Any]] = Operation(
    name="order_history",
    method="POST",
    path="/wallet/1.0.0/orders",
    repeatability=Repeatability.READ,
    content=Content.JSON,
)

# Interface: Endpoints 5; Authentication 3
TRADING_ORDER_HISTORY: Final[Operation[Any]] = Operation(
    name="trading_order_history",
    method="GET",
    path="/wallet/1.0.0/{customerId}/trading-order-history",
    repeatability=Repeatability.READ,
)

# Interface: Endpoints 6; Authentication 3
SPOT_TRADING_AVAILABLE_BALANCE: Final[Operation[Any]] = Operation(
    name="spot_trading_available_balance",
    method="GET",
    path="/wallet/1.0.0/spot-trading/available-balance",
    repeatability=Repeatability.READ,
)

# Interface: Endpoints 7; Authentication 3
CANCEL_ORDER: Final[Operation[Any]] = Operation(
    name="cancel_order",
    method="DELETE",
    path="/wallet/1.0.0/{walletId}/orders/{orderId}",
    repeatability=Repeatability.IDEMPOTENT,
)

# Interface: Endpoints 8; Authentication 3 adds tenantId, which the table of endpoints leaves out.
CHANGE_DOCUMENT_STATUS: Final[Operation[Any]] = Operation(
    name="change_document_status",
    method="PUT",
    path="/aml/1.0.0/document/{documentId}/status",
    repeatability=Repeatability.IDEMPOTENT,
    content=Content.ANY,
)

# Interface: Endpoints 9; Authentication 3, as for 8
UPDATE_DOCUMENT: Final[Operation[Any]] = Operation(
    name="update_document",
    method="PUT",
    path="/aml/1.0.0/document/update/{docid}",
    repeatability=Repeatability.IDEMPOTENT,
    content=Content.ANY,
)

# Interface: Endpoints 10; Authentication 3, as for 8
UPLOAD_DOCUMENT: Final[Operation[Any]] = Operation(
    name="upload_document",
    method="POST",
    path="/aml/1.0.0/document/upload",
    repeatability=Repeatability.ONCE,
    content=Content.ANY,
)

# Interface: Endpoints 11; Events
SEND_WEBHOOK: Final[Operation[None]] = Operation(
    name="send_webhook",
    method="POST",
    path="/kyc/1.0.0/webhook",
    repeatability=Repeatability.ONCE,
    reply=None,
    tenant_id=Header.NEVER,
    token_header=Header.NEVER,
    content=Content.ANY,
)

# Interface: Endpoints 12; Endpoints rule 2. A POST that only reads: it takes no body.
LIST_COUNTRIES: Final["Operation[list[Country]]"] = Operation(
    name="list_countries",
    method="POST",
    path="/countrydata/1.0.0/listData",
    repeatability=Repeatability.READ,
    reply=_Countries,
    tenant_id=Header.NEVER,
    token_header=Header.NEVER,
)

OPERATIONS: Final[tuple[Operation[Any], ...]] = tuple(
    value for value in list(globals().values()) if isinstance(value, Operation)
)
"""All of them, in the order of the interface's table."""
