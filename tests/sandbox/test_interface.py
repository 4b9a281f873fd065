from typing import Any

import pytest

from gateway_sdk.sandbox._interface import (
    ANYTHING,
    BOOLEAN,
    CREATE_REQUEST,
    EXCHANGE_RATE_SERIES,
    INTEGER,
    NULLABLE_INT64,
    NULLABLE_STRING,
    OPERATIONS,
    ORDER_HISTORY_PAGE,
    REVISION,
    REVISIONS,
    STRING,
    Array,
    Record,
    Shape,
    ShapeError,
    check,
)
from tests import interface_table
from tests.interface_table import FILLED, MODELS, REQUIRED_FIELDS

SCALARS = {
    ("string", False): STRING,
    ("string", True): NULLABLE_STRING,
    ("integer", False): INTEGER,
    ("int64", True): NULLABLE_INT64,
    ("boolean", False): BOOLEAN,
    ("any", True): ANYTHING,
}
BODIES = {
    "CreateRequest": CREATE_REQUEST,
    "Revision": REVISION,
    "ExchangeRateSeriesRequest": EXCHANGE_RATE_SERIES,
    "OrderHistoryPage": ORDER_HISTORY_PAGE,
}
NULLS = {"customerType": None, "person": {"firstName": {"order": None}, "gender": None}}

REFUSED: list[tuple[Any, str]] = [
    ([], "$ must be an object"),
    ({"customertype": "person"}, "$.customertype is not a field of the interface"),
    ({"customerType": 1}, "$.customerType must be a string or null"),
    ({"isB2B": None}, "$.isB2B must be a boolean"),
    ({"isB2B": 1}, "$.isB2B must be a boolean"),
    ({"person": None}, "$.person must be an object"),
    ({"notifications": None}, "$.notifications must be an array"),
    ({"notifications": {}}, "$.notifications must be an array"),
    ({"sharePercentage": True}, "$.sharePercentage must be an int64 or null"),
    ({"sharePercentage": 5.0}, "$.sharePercentage must be an int64 or null"),
    ({"sharePercentage": 2**63}, "$.sharePercentage must be an int64 or null"),
    ({"sharePercentage": -(2**63) - 1}, "$.sharePercentage must be an int64 or null"),
    ({"person": {"secretQuestion": []}}, "$.person.secretQuestion is not a field of the interface"),
    (
        {"person": {"addresses": [{}, {"address": {"streetNumber": ["1", None]}}]}},
        "$.person.addresses[1].address.streetNumber[1] must be a string",
    ),
]


def _shape_of(kind: str, *, nullable: bool = False) -> Shape:
    if kind.startswith("["):
        return Array(_shape_of(kind[1:-1]))
    if kind not in MODELS:
        return SCALARS[kind, nullable]
    fields = {
        field.wire_name: _shape_of(field.type, nullable=field.nullable) for field in MODELS[kind]
    }
    return Record(fields, complete=kind in REQUIRED_FIELDS)


@pytest.mark.parametrize(("name", "shape"), BODIES.items())
def test_shape_is_the_interfaces(name: str, shape: Record) -> None:
    """A body has the fields of the interface's table and their types, at every depth."""
    assert shape == _shape_of(name)


def test_routes_are_the_interfaces() -> None:
    """The twelve routes are those of the interface's table, in its order."""
    assert [tuple(route) for route in OPERATIONS] == [
        (row.name, row.method, row.path) for row in interface_table.OPERATIONS
    ]


@pytest.mark.parametrize("body", [{}, NULLS, FILLED], ids=["empty", "nulls", "filled"])
def test_customer_with_no_field_or_every_field_fits(body: Any) -> None:
    """No field of a CreateRequest is required, nulls are accepted, and so are all fields."""
    check(body, CREATE_REQUEST)


@pytest.mark.parametrize(("body", "complaint"), REFUSED)
def test_misfit_is_refused_by_its_path(body: Any, complaint: str) -> None:
    """A value that does not fit is refused, and the message has its path."""
    with pytest.raises(ShapeError) as refused:
        check(body, CREATE_REQUEST)

    assert str(refused.value) == complaint


def test_refusal_does_not_show_the_value() -> None:
    """The value of a refused secret is not in the message."""
    with pytest.raises(ShapeError) as refused:
        check({"person": {"pinCode": ["9876"]}}, CREATE_REQUEST)

    assert "9876" not in str(refused.value)


@pytest.mark.parametrize(
    ("body", "shape", "complaint"),
    [
        ({}, REVISIONS, "$.revisions is missing"),
        ({"revisions": [{"key": "a"}]}, REVISIONS, "$.revisions[0].value is missing"),
        ({"base": "EUR"}, EXCHANGE_RATE_SERIES, "$.symbols is missing"),
    ],
)
def test_complete_record_lacks_nothing(body: Any, shape: Record, complaint: str) -> None:
    """Where every field is required, a missing one is refused by its path."""
    with pytest.raises(ShapeError) as refused:
        check(body, shape)

    assert str(refused.value) == complaint
