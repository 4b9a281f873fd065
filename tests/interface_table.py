"""The interface's tables, written out by hand from its text, never from our models.

The only ones in the tests: the models, the operations and the sandbox are compared with these.
"""

import json
from typing import Any, Final, NamedTuple

from gateway_sdk import Repeatability


class Field(NamedTuple):
    """One row of a table of fields.

    *type* is "string", "integer", "int64", "int32", "boolean" or "any", the name of an object, or
    one of these in brackets for an array. *nullable* is what the interface says of the value.
    """

    wire_name: str
    type: str
    nullable: bool = False


class Row(NamedTuple):
    """One row of the table of endpoints, with what the authentication rules add to it.

    *tenant_id* and *token* are "required", "sent" or "never"; *content_type* and *body* are None
    where there is no body, "any" where it is open.
    """

    number: int
    name: str
    method: str
    path: str
    tenant_id: str
    token: str
    content_type: str | None
    body: str | None
    response: str
    repeatability: Repeatability


def _strings(*names: str) -> list[Field]:
    return [Field(name, "string", nullable=True) for name in names]


# Interface: Resources and their fields
MODELS: Final[dict[str, list[Field]]] = {
    "CreateRequest": [
        *_strings(
            "customerType", "customerName", "externalCustomerId", "customerStatus", "categorization"
        ),
        Field("person", "PersonData"),
        Field("notifications", "[NotificationsItem]"),
        Field("isB2B", "boolean"),
        Field("sharePercentage", "int64", nullable=True),
        Field("ultimatePercentage", "int64", nullable=True),
        Field("isDirector", "boolean"),
    ],
    "PersonData": [
        Field("firstName", "Name"),
        Field("lastName", "Name"),
        *_strings("gender", "dateOfBirth", "placeOfBirth", "nationality", "pinCode", "password"),
        *_strings("fullName", "email", "groupId"),
        Field("documents", "[DocumentsItem]"),
        Field("telephoneNumbers", "[TelephoneNumbersItem]"),
        Field("SecretQuestion", "[SecretQuestionItem]"),
        Field("addresses", "[AddressesItem]"),
    ],
    "Name": [
        Field("name", "string", nullable=True),
        Field("order", "int64", nullable=True),
        *_strings("abbreviation", "language", "native", "suffix", "prefix"),
    ],
    "NotificationsItem": [
        Field("notificationType", "string", nullable=True),
        Field("isEnabled", "boolean"),
    ],
    "DocumentsItem": [
        *_strings("purpose", "name"),
        Field("verificationResponse", "any", nullable=True),
        *_strings("documentType", "location", "status"),
        Field("metadata", "[MetadataItem]"),
    ],
    "MetadataItem": _strings("name", "type", "value"),
    "AdditionalDataItem": _strings("name", "type", "value"),
    "TelephoneNumbersItem": _strings(
        "phoneType", "operator", "encoding", "country", "number", "purpose"
    ),
    "SecretQuestionItem": _strings("question", "answer"),
    "AddressesItem": [
        Field("addresspurpose", "string", nullable=True),
        Field("address", "Address"),
    ],
    "Address": [
        *_strings("country", "area", "city", "zipCode", "street"),
        Field("streetNumber", "[string]"),
        *_strings("building", "apartment", "entrance", "floor", "doorNumber"),
        Field("geoPosition", "GeoPosition"),
        Field("alternative", "Alternative"),
        Field("relatedToAddress", "[RelatedToAddressItem]"),
        Field("additionalData", "[AdditionalDataItem]"),
    ],
    "GeoPosition": [
        Field("latitude", "int64", nullable=True),
        Field("longitude", "int64", nullable=True),
        Field("altitude", "int64", nullable=True),
    ],
    "Alternative": _strings("word1", "word2", "word3"),
    "RelatedToAddressItem": _strings("relationType"),
    "Revision": [Field("key", "string"), Field("value", "string")],
    "ExchangeRateSeriesRequest": [
        Field("base", "string"),
        Field("symbols", "string"),
        Field("startDate", "string"),
        Field("endDate", "string"),
    ],
    "OrderHistoryPage": [Field("page", "integer"), Field("take", "integer")],
    "Country": [
        Field("id", "integer"),
        Field("countryName", "string"),
        Field("nationality", "string"),
        Field("three_digit_iso_code", "string"),
        Field("two_digit_iso_code", "string"),
        Field("currency", "string"),
        Field("phone_code", "string"),
    ],
    "ErrorPayload": [
        Field("reason", "string"),
        Field("path", "string"),
        Field("method", "string"),
        Field("message", "string"),
        Field("timestamp", "string"),
        Field("status", "int32"),
    ],
}

REPLIES: Final = ("Country", "ErrorPayload")
REQUESTS: Final = tuple(name for name in MODELS if name not in REPLIES)

# Not optional by their nature: a request without them asks for nothing.
REQUIRED_FIELDS: Final = ("Revision", "ExchangeRateSeriesRequest", "OrderHistoryPage")

# Interface: PersonData and SecretQuestionItem, the fields called sensitive
SECRETS: Final = (
    ("PersonData", "pinCode"),
    ("PersonData", "password"),
    ("SecretQuestionItem", "answer"),
)

# Interface: Endpoints; Authentication 3. The endpoints leave tenantId out of 8 to 10, the rule
# adds it: the rule is followed. The last column is no row of the interface: a GET and a POST that
# only asks may be repeated, a PUT and a DELETE too (RFC 9110, 9.2.2), and every other POST never.
_ENDPOINTS: Final = """
1 create_customer POST /customer/1.0.0/create required never json CreateRequest open ONCE
2 revise_customer POST /customer/1.0.0/update/{customerId}/revisions sent sent json revisions open ONCE
3 exchange_rate_series POST /currency/1.0.0/exchangeRateSeries never never json ExchangeRateSeriesRequest open READ
4 order_history POST /wallet/1.0.0/orders sent sent json OrderHistoryPage open READ
5 trading_order_history GET /wallet/1.0.0/{customerId}/trading-order-history sent sent - - open READ
6 spot_trading_available_balance GET /wallet/1.0.0/spot-trading/available-balance sent sent - - open READ
7 cancel_order DELETE /wallet/1.0.0/{walletId}/orders/{orderId} sent sent - - open IDEMPOTENT
8 change_document_status PUT /aml/1.0.0/document/{documentId}/status sent sent any any open IDEMPOTENT
9 update_document PUT /aml/1.0.0/document/update/{docid} sent sent any any open IDEMPOTENT
10 upload_document POST /aml/1.0.0/document/upload sent sent any any open ONCE
11 send_webhook POST /kyc/1.0.0/webhook never never - - 202 ONCE
12 list_countries POST /countrydata/1.0.0/listData never never - - [Country] READ
"""  # noqa: E501 - a table
_CELLS: Final[dict[str, str | None]] = {"-": None, "json": "application/json"}


def _row(line: str) -> Row:
    number, name, method, path, tenant_id, token, content_type, body, response, kind = line.split()
    return Row(
        int(number),
        name,
        method,
        path,
        tenant_id,
        token,
        _CELLS.get(content_type, content_type),
        _CELLS.get(body, body),
        response,
        Repeatability[kind],
    )


OPERATIONS: Final = tuple(map(_row, _ENDPOINTS.strip().splitlines()))
REPEATABILITY: Final = {row.name: row.repeatability for row in OPERATIONS}

COUNTRY: Final[dict[str, Any]] = {
    "id": 616,
    "countryName": "Poland",
    "nationality": "Polish",
    "three_digit_iso_code": "POL",
    "two_digit_iso_code": "PL",
    "currency": "PLN",
    "phone_code": "+48",
}

_SAMPLES: Final[dict[str, Any]] = {
    "integer": 7,
    "int64": 2**63 - 1,
    "int32": 7,
    "boolean": True,
    "any": {"open": [1, None]},
}


def sample(kind: str, name: str = "text") -> Any:
    """Make a value of a type of the table; of an object, one with every field.

    A string is the *name* of its field.
    """
    if kind.startswith("["):
        return [sample(kind[1:-1], name)]
    if kind in MODELS:
        return {field.wire_name: sample(field.type, field.wire_name) for field in MODELS[kind]}
    return _SAMPLES.get(kind, name)


# A CreateRequest with every field of every object in it, in the interface's own names.
FILLED: Final[dict[str, Any]] = sample("CreateRequest")
# The same as it has to go over the wire: without spaces, in the order of the table.
FILLED_JSON: Final = json.dumps(FILLED, separators=(",", ":")).encode()
