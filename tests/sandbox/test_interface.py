import json
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from gateway_sdk.sandbox._operations import OPERATIONS, RECORDS, parse_json
from tests import interface_table
from tests.interface_table import FILLED, MODELS, REQUIRED_FIELDS

BODIES = ("CreateRequest", "Revision", "ExchangeRateSeriesRequest", "OrderHistoryPage")
NULLS = {"customerType": None, "person": {"firstName": {"order": None}, "gender": None}}

TEXT, NUMBER = "Input should be a valid string", "Input should be a valid integer"
REFUSED: list[tuple[Any, str]] = [
    ({"person": {"pinCode": ["9876"]}}, f"$.person.pinCode: {TEXT}"),
    ([], "$: Input should be an object"),
    ({"customertype": "person"}, "$.customertype: Extra inputs are not permitted"),
    ({"customerType": 1}, f"$.customerType: {TEXT}"),
    ({"isB2B": None}, "$.isB2B: Input should be a valid boolean"),
    ({"isB2B": 1}, "$.isB2B: Input should be a valid boolean"),
    ({"person": None}, "$.person: Input should be an object"),
    ({"notifications": None}, "$.notifications: Input should be a valid array"),
    ({"notifications": {}}, "$.notifications: Input should be a valid array"),
    ({"sharePercentage": True}, f"$.sharePercentage: {NUMBER}"),
    ({"sharePercentage": 5.0}, f"$.sharePercentage: {NUMBER}"),
    ({"sharePercentage": 2**63}, f"$.sharePercentage: Input should be less than {2**63}"),
    (
        {"sharePercentage": -(2**63) - 1},
        f"$.sharePercentage: Input should be greater than or equal to {-(2**63)}",
    ),
    ({"person": {"secretQuestion": []}}, "$.person.secretQuestion: Extra inputs are not permitted"),
    (
        {"person": {"addresses": [{}, {"address": {"streetNumber": ["1", None]}}]}},
        f"$.person.addresses[1].address.streetNumber[1]: {TEXT}",
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
    with pytest.raises(HTTPException) as refused:
        parse_json(b"{}", body)

    assert refused.value.detail == f"$.{next(iter(RECORDS[body]))}: Field required"


def test_routes_are_the_interfaces() -> None:
    assert [tuple(route) for route in OPERATIONS] == [
        (row.name, row.method, row.path) for row in interface_table.OPERATIONS
    ]


@pytest.mark.parametrize("body", [{}, NULLS, FILLED], ids=["empty", "nulls", "filled"])
def test_customer_with_no_field_or_every_field_fits(body: Any) -> None:
    assert parse_json(json.dumps(body).encode(), "CreateRequest") == body


@pytest.mark.parametrize(("body", "complaint"), REFUSED)
def test_misfit_is_refused_by_its_path(body: Any, complaint: str) -> None:
    with pytest.raises(HTTPException) as refused:
        parse_json(json.dumps(body).encode(), "CreateRequest")

    assert (refused.value.status_code, refused.value.detail) == (400, complaint)
