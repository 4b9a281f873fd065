"""The interface as data: the twelve operations, and the fields of each request body. No I/O here.

Copied by hand from the interface's tables and not from the SDK's models, so that a misspelt name
in the SDK fails against the sandbox.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, cast


@dataclass(frozen=True, slots=True)
class Scalar:
    """A string, number or boolean; *name* is for error messages."""

    name: str
    accepts: Callable[[object], bool]


@dataclass(frozen=True, slots=True)
class Record:
    """An object of these fields and no others; if *complete*, all are required."""

    fields: "Mapping[str, Shape]"
    complete: bool = False


@dataclass(frozen=True, slots=True)
class Array:
    item: "Shape"


Shape: TypeAlias = Scalar | Record | Array


class ShapeError(ValueError):
    """A value does not have its shape; the message names the field, never the value."""


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_integer(value: object) -> bool:
    # In Python True is an int, in JSON it is not an integer.
    return isinstance(value, int) and not isinstance(value, bool)


def _is_int64(value: object) -> bool:
    return _is_integer(value) and -(2**63) <= cast("int", value) < 2**63


def _is_boolean(value: object) -> bool:
    return isinstance(value, bool)


def _or_null(scalar: Scalar) -> Scalar:
    return Scalar(f"{scalar.name} or null", lambda value: value is None or scalar.accepts(value))


STRING = Scalar("a string", _is_string)
NULLABLE_STRING = _or_null(STRING)
INTEGER = Scalar("an integer", _is_integer)
NULLABLE_INT64 = _or_null(Scalar("an int64", _is_int64))
BOOLEAN = Scalar("a boolean", _is_boolean)
ANYTHING = Scalar("any JSON value", lambda _: True)


def check(value: object, shape: Shape, path: str = "$") -> None:
    """Check that a value has its shape; *path* is its position as a JSONPath."""
    match shape:
        case Scalar():
            _require(shape.accepts(value), f"{path} must be {shape.name}")
        case Array():
            _check_items(value, shape, path)
        case _:
            _check_fields(value, shape, path)


def _check_items(value: object, shape: Array, path: str) -> None:
    _require(isinstance(value, list), f"{path} must be an array")
    for position, item in enumerate(cast("list[object]", value)):
        check(item, shape.item, f"{path}[{position}]")


def _check_fields(value: object, shape: Record, path: str) -> None:
    _require(isinstance(value, dict), f"{path} must be an object")
    given = cast("dict[str, object]", value)
    for name in given:
        _require(name in shape.fields, f"{path}.{name} is not a field of the interface")
        check(given[name], shape.fields[name], f"{path}.{name}")
    for name in shape.fields:
        _require(name in given or not shape.complete, f"{path}.{name} is missing")


def _require(valid: bool, message: str) -> None:  # noqa: FBT001 - reads as one sentence
    if not valid:
        raise ShapeError(message)


class OperationRoute(NamedTuple):
    """One row of the interface's table of endpoints: the SDK's name for it, method and path."""

    name: str
    method: str
    path: str


# Interface: Endpoints 1-12, in that order. The path of a document with the id "update" or "status"
# matches 8 and 9; the interface does not say which applies, here it is the earlier row.
OPERATIONS = (
    OperationRoute("create_customer", "POST", "/customer/1.0.0/create"),
    OperationRoute("revise_customer", "POST", "/customer/1.0.0/update/{customerId}/revisions"),
    OperationRoute("exchange_rate_series", "POST", "/currency/1.0.0/exchangeRateSeries"),
    OperationRoute("order_history", "POST", "/wallet/1.0.0/orders"),
    OperationRoute(
        "trading_order_history", "GET", "/wallet/1.0.0/{customerId}/trading-order-history"
    ),
    OperationRoute(
        "spot_trading_available_balance", "GET", "/wallet/1.0.0/spot-trading/available-balance"
    ),
    OperationRoute("cancel_order", "DELETE", "/wallet/1.0.0/{walletId}/orders/{orderId}"),
    OperationRoute("change_document_status", "PUT", "/aml/1.0.0/document/{documentId}/status"),
    OperationRoute("update_document", "PUT", "/aml/1.0.0/document/update/{docid}"),
    OperationRoute("upload_document", "POST", "/aml/1.0.0/document/upload"),
    OperationRoute("send_webhook", "POST", "/kyc/1.0.0/webhook"),
    OperationRoute("list_countries", "POST", "/countrydata/1.0.0/listData"),
)
OPERATION_NAMES = tuple(operation.name for operation in OPERATIONS)


def check_operation(name: str) -> None:
    if name not in OPERATION_NAMES:
        known = ", ".join(OPERATION_NAMES)
        raise ValueError(f"unknown operation {name!r}; the operations are {known}")


# Interface: Resources, Name object
NAME = Record(
    {
        "name": NULLABLE_STRING,
        "order": NULLABLE_INT64,
        "abbreviation": NULLABLE_STRING,
        "language": NULLABLE_STRING,
        "native": NULLABLE_STRING,
        "suffix": NULLABLE_STRING,
        "prefix": NULLABLE_STRING,
    }
)

# Interface: Resources, NotificationsItem
NOTIFICATIONS_ITEM = Record(
    {
        "notificationType": NULLABLE_STRING,
        "isEnabled": BOOLEAN,
    }
)

# Interface: Resources, MetadataItem and AdditionalDataItem
METADATA_ITEM = ADDITIONAL_DATA_ITEM = Record(
    {
        "name": NULLABLE_STRING,
        "type": NULLABLE_STRING,
        "value": NULLABLE_STRING,
    }
)

# Interface: Resources, DocumentsItem
DOCUMENTS_ITEM = Record(
    {
        "purpose": NULLABLE_STRING,
        "name": NULLABLE_STRING,
        "verificationResponse": ANYTHING,
        "documentType": NULLABLE_STRING,
        "location": NULLABLE_STRING,
        "status": NULLABLE_STRING,
        "metadata": Array(METADATA_ITEM),
    }
)

# Interface: Resources, TelephoneNumbersItem
TELEPHONE_NUMBERS_ITEM = Record(
    {
        "phoneType": NULLABLE_STRING,
        "operator": NULLABLE_STRING,
        "encoding": NULLABLE_STRING,
        "country": NULLABLE_STRING,
        "number": NULLABLE_STRING,
        "purpose": NULLABLE_STRING,
    }
)

# Interface: Resources, SecretQuestionItem
SECRET_QUESTION_ITEM = Record(
    {
        "question": NULLABLE_STRING,
        "answer": NULLABLE_STRING,
    }
)

# Interface: Resources, below Address
GEO_POSITION = Record(
    {
        "latitude": NULLABLE_INT64,
        "longitude": NULLABLE_INT64,
        "altitude": NULLABLE_INT64,
    }
)
ALTERNATIVE = Record(
    {
        "word1": NULLABLE_STRING,
        "word2": NULLABLE_STRING,
        "word3": NULLABLE_STRING,
    }
)
RELATED_TO_ADDRESS_ITEM = Record({"relationType": NULLABLE_STRING})

# Interface: Resources, Address
ADDRESS = Record(
    {
        "country": NULLABLE_STRING,
        "area": NULLABLE_STRING,
        "city": NULLABLE_STRING,
        "zipCode": NULLABLE_STRING,
        "street": NULLABLE_STRING,
        "streetNumber": Array(STRING),
        "building": NULLABLE_STRING,
        "apartment": NULLABLE_STRING,
        "entrance": NULLABLE_STRING,
        "floor": NULLABLE_STRING,
        "doorNumber": NULLABLE_STRING,
        "geoPosition": GEO_POSITION,
        "alternative": ALTERNATIVE,
        "relatedToAddress": Array(RELATED_TO_ADDRESS_ITEM),
        "additionalData": Array(ADDITIONAL_DATA_ITEM),
    }
)

# Interface: Resources, AddressesItem
ADDRESSES_ITEM = Record(
    {
        "addresspurpose": NULLABLE_STRING,
        "address": ADDRESS,
    }
)

# Interface: Resources, PersonData
PERSON_DATA = Record(
    {
        "firstName": NAME,
        "lastName": NAME,
        "gender": NULLABLE_STRING,
        "dateOfBirth": NULLABLE_STRING,
        "placeOfBirth": NULLABLE_STRING,
        "nationality": NULLABLE_STRING,
        "pinCode": NULLABLE_STRING,
        "password": NULLABLE_STRING,
        "fullName": NULLABLE_STRING,
        "email": NULLABLE_STRING,
        "groupId": NULLABLE_STRING,
        "documents": Array(DOCUMENTS_ITEM),
        "telephoneNumbers": Array(TELEPHONE_NUMBERS_ITEM),
        "SecretQuestion": Array(SECRET_QUESTION_ITEM),
        "addresses": Array(ADDRESSES_ITEM),
    }
)

# Interface: Resources, Customer creation request
CREATE_REQUEST = Record(
    {
        "customerType": NULLABLE_STRING,
        "customerName": NULLABLE_STRING,
        "externalCustomerId": NULLABLE_STRING,
        "customerStatus": NULLABLE_STRING,
        "categorization": NULLABLE_STRING,
        "person": PERSON_DATA,
        "notifications": Array(NOTIFICATIONS_ITEM),
        "isB2B": BOOLEAN,
        "sharePercentage": NULLABLE_INT64,
        "ultimatePercentage": NULLABLE_INT64,
        "isDirector": BOOLEAN,
    }
)

# Interface: Resources, Revision entry; Endpoints 2
REVISION = Record({"key": STRING, "value": STRING}, complete=True)
REVISIONS = Record({"revisions": Array(REVISION)}, complete=True)

# Interface: Resources, Exchange rate series request
EXCHANGE_RATE_SERIES = Record(
    {
        "base": STRING,
        "symbols": STRING,
        "startDate": STRING,
        "endDate": STRING,
    },
    complete=True,
)

# Interface: Resources, Order history page request
ORDER_HISTORY_PAGE = Record({"page": INTEGER, "take": INTEGER}, complete=True)

# Interface: Endpoints 8 leaves the body open; this form is the sandbox's own.
DOCUMENT_STATUS = Record({"status": STRING}, complete=True)
