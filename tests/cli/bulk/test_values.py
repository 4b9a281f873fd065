import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_sdk.bulk import RateRow
from gateway_sdk.cli.bulk.values import rows_of, to_journal


def series(rate: Any) -> dict[str, Any]:
    """Make a reply with one rate."""
    return {"base": "EUR", "rates": {"2026-10-30": {"USD": rate}}}


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_digit_is_lost_on_the_way_through_the_journal(rate: Decimal) -> None:
    """Rows of a reply that has come, and of the same out of the file, have the number itself."""
    written = json.loads(json.dumps(to_journal(series(rate)), allow_nan=False))

    expected = [RateRow("EUR", "USD", date(2026, 10, 30), rate)]
    assert rows_of(series(rate), "EUR") == rows_of(written, "EUR") == expected


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("1.1172", "1.1172"),
        ("1.10", "1.1"),
        ("1e-7", "1e-07"),
        ("1.12345678901234567890", '"1.12345678901234567890"'),
        ("1E+400", '"1E+400"'),
    ],
)
def test_numbers_are_numbers_where_a_float_holds_them(number: str, written: str) -> None:
    """Programs that read the file need no cast, and what they cannot read exactly is a string."""
    assert json.dumps(to_journal([Decimal(number)])) == f"[{written}]"


@pytest.mark.parametrize("value", [None, "text", 1, True, [1, {"a": "b"}], {"a": [None]}])
def test_other_values_stand_as_they_came(value: Any) -> None:
    """Whatever a gateway replies with."""
    assert to_journal(value) == value


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [],
        {"series": [1.5]},
        {"rates": [1.5]},
        {"rates": {"2026-10-30": 1.5}},
        {"rates": {"Friday": {"USD": 1.5}}},
        series("much"),
        series("NaN"),
        series(rate=True),
        series(None),
    ],
)
def test_other_shapes_have_no_rows(reply: Any) -> None:
    """The interface leaves replies open: none of these is taken for rates."""
    assert rows_of(reply, "EUR") is None
