import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import to_json

from gateway_sdk.bulk import RateRow
from gateway_sdk.cli.series import read_series, rows_of, shortest

REPLY = {
    "rates": {
        "2026-01-05": {"USD": Decimal("1.10"), "GBP": 2},
        "2026-01-02": {"USD": Decimal("1.20"), "XAU": Decimal("0.001")},
    }
}


def test_common_shape_is_read() -> None:
    """Days ascend; currencies come as asked for, then what else was sent."""
    series = read_series(REPLY, "EUR", ["GBP", "USD", "SEK"])

    assert series is not None
    assert series.days == [date(2026, 1, 2), date(2026, 1, 5)]
    assert list(series.rates) == ["GBP", "USD", "SEK", "XAU"]
    assert series.rates["GBP"] == {date(2026, 1, 5): 2}
    assert series.table().columns == ["date", "GBP", "USD", "SEK", "XAU"]
    assert series.table().rows == [
        (date(2026, 1, 2), None, Decimal("1.20"), None, Decimal("0.001")),
        (date(2026, 1, 5), 2, Decimal("1.10"), None, None),
    ]
    assert list(series.columns()) == ["date", "GBP", "USD", "SEK", "XAU"]
    assert series.columns()["USD"] == [Decimal("1.20"), Decimal("1.10")]


def test_number_that_came_as_a_text_is_exact() -> None:
    """Gateways write amounts so whose digits must not be lost."""
    series = read_series({"rates": {"2026-01-05": {"USD": "1.10"}}}, "EUR", ["USD"])

    assert series is not None
    assert str(series.rates["USD"][date(2026, 1, 5)]) == "1.10"


def test_series_may_be_empty() -> None:
    """No day is a series too."""
    series = read_series({"rates": {}}, "EUR", ["USD"])

    assert series is not None
    assert series.days == []


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [],
        "rates",
        {},
        {"rates": [1]},
        {"rates": {"Monday": {"USD": 1}}},
        {"rates": {"2026-01-05": 1}},
        {"rates": {"2026-01-05": {"USD": "much"}}},
        {"rates": {"2026-01-05": {"USD": True}}},
        {"rates": {"2026-01-05": {"USD": None}}},
        {"rates": {"2026-01-05": {"USD": 0}}},
        {"rates": {"2026-01-05": {"USD": -1}}},
        {"rates": {"2026-01-05": {"USD": Decimal("1E+400000")}}},
        {"rates": {"2026-01-05": {"USD": Decimal("1E-400000")}}},
        {"rates": {"2026-01-05": {"USD": Decimal("1." + "1" * 40)}}},
    ],
)
def test_other_shapes_are_none(reply: Any) -> None:
    """The interface leaves the reply open, so nothing is taken for what it is not."""
    assert read_series(reply, "EUR", ["USD"]) is None


def series(rate: Any) -> dict[str, Any]:
    """Make a reply with one rate."""
    return {"base": "EUR", "rates": {"2026-10-30": {"USD": rate}}}


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_digit_is_lost_on_the_way_through_the_journal(rate: Decimal) -> None:
    """Rows of a reply that has come, and of the same out of the file, have the number itself."""
    come = series(shortest(str(rate)))
    written = json.loads(to_json(come))

    expected = [RateRow("EUR", "USD", date(2026, 10, 30), rate)]
    assert rows_of(come, "EUR") == rows_of(written, "EUR") == expected


@pytest.mark.parametrize(
    ("number", "written"),
    [
        ("1.1172", b"1.1172"),
        ("1.10", b"1.1"),
        ("1e-7", b"1e-7"),
        ("1.12345678901234567890", b'"1.12345678901234567890"'),
        ("1E+400", b'"1E+400"'),
    ],
)
def test_numbers_are_numbers_where_a_float_holds_them(number: str, written: bytes) -> None:
    """Programs that read the file need no cast, and what they cannot read exactly is a string."""
    assert to_json(shortest(number)) == written


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
