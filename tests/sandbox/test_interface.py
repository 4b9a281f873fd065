from typing import Any

import pytest

from gateway_sdk.sandbox._interface import OPERATIONS, RECORDS, ShapeError, check
from tests import interface_table
from tests.interface_table import FILLED, MODELS, REQUIRED_FIELDS

BODIES = ("CreateRequest", "Revision", "ExchangeRateSeriesRequest", "OrderHistoryPage")
NULLS = {"customerType": None, "person": {"firstName": {"order": None}, "gender": None}}

REFUSED: list[tuple[Any, str]] = [
    ({"person": {"pinCode": ["9876"]}}, "$.person.pinCode must be a string or null"),
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


def _records_of(kind: str) -> dict[str, dict[str, str]]:
    """Return the fields of a record of the interface's tables, and of those in it."""
    name = kind.strip("[]")
    if name not in MODELS:
        return {}
    found = {name: {field.wire_name: field.type + "?" * field.nullable for field in MODELS[name]}}
    for field in MODELS[name]:
        found |= _records_of(field.type)
    return found


def test_records_are_the_interfaces() -> None:
    own = {"Revisions": {"revisions": "[Revision]"}, "DocumentStatus": {"status": "string"}}
    for body in BODIES:
        own |= _records_of(body)
    assert own == RECORDS


@pytest.mark.parametrize("body", [*REQUIRED_FIELDS, "Revisions", "DocumentStatus"])
def test_a_record_of_required_fields_lacks_none(body: str) -> None:
    with pytest.raises(ShapeError, match=rf"^\$\.{next(iter(RECORDS[body]))} is missing$"):
        check({}, body)


def test_routes_are_the_interfaces() -> None:
    assert [tuple(route) for route in OPERATIONS] == [
        (row.name, row.method, row.path) for row in interface_table.OPERATIONS
    ]


@pytest.mark.parametrize("body", [{}, NULLS, FILLED], ids=["empty", "nulls", "filled"])
def test_customer_with_no_field_or_every_field_fits(body: Any) -> None:
    check(body, "CreateRequest")


@pytest.mark.parametrize(("body", "complaint"), REFUSED)
def test_misfit_is_refused_by_its_path(body: Any, complaint: str) -> None:
    with pytest.raises(ShapeError) as refused:
        check(body, "CreateRequest")

    assert str(refused.value) == complaint
