"""Exchange rates as they are shown: tables and a curve of blocks."""

import json
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic_core import to_json

from gateway_sdk.bulk import rate_rows
from gateway_sdk.cli.arguments import shortest
from gateway_sdk.cli.series import curve, read_series
from tests.cli.support import series_of

REPLY = {
    "rates": {
        "2026-01-05": {"USD": Decimal("1.10"), "GBP": 2},
        "2026-01-02": {"USD": Decimal("1.20"), "XAU": Decimal("0.001")},
    }
}


def series(rate: Any) -> dict[str, Any]:
    return {"base": "EUR", "rates": {"2026-10-30": {"USD": rate}}}


def test_common_shape_is_read() -> None:
    series = read_series(REPLY, "EUR", ["GBP", "USD", "SEK"])

    assert series is not None
    assert series.days == [date(2026, 1, 2), date(2026, 1, 5)]
    assert list(series.rates) == ["GBP", "USD", "SEK", "XAU"]
    assert series.rates["GBP"] == {date(2026, 1, 5): 2}
    assert series.table().columns == ("date", "GBP", "USD", "SEK", "XAU")
    assert series.table().rows == [
        (date(2026, 1, 2), None, Decimal("1.20"), None, Decimal("0.001")),
        (date(2026, 1, 5), 2, Decimal("1.10"), None, None),
    ]


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [],
        "rates",
        {},
        {"series": [1.5]},
        {"rates": [1]},
        {"rates": {"Monday": {"USD": 1}}},
        {"rates": {"2026-01-05": 1}},
        {"rates": {"2026-01-05": {"USD": "much"}}},
        {"rates": {"2026-01-05": {"USD": True}}},
        {"rates": {"2026-01-05": {"USD": None}}},
        {"rates": {"2026-01-05": {"USD": "NaN"}}},
        # What cannot be drawn.
        *map(series, (0, -1, *map(Decimal, ("1E+400000", "1E-400000")))),
    ],
)
def test_other_shapes_are_none(reply: Any) -> None:
    """The interface leaves the reply open, so nothing is taken for what it is not."""
    assert read_series(reply, "EUR", ["USD"]) is None


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_digit_is_lost_on_the_way_through_the_journal(rate: Decimal) -> None:
    """Rows of a reply that has come, and of the same out of the file, have the number itself."""
    come = series(shortest(str(rate)))
    written = json.loads(to_json(come))

    for reply in (come, written):
        rows = rate_rows(reply, base="EUR") or []
        assert [Decimal(str(row.rate)) for row in rows] == [rate]


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
    ("rates", "width", "drawn"),
    [
        (["1", "2", "3"], 3, "▁▅█"),
        (["1", None, "2"], 3, "▁ █"),
        ([None, "2", "2", None], 4, " ▄▄ "),
        (["5"], 3, "▄  "),
        (["1", "1", "1", "3", "3", "3"], 3, "▁▅█"),
        (["1", "1", "1", "9", None, None], 3, "▁█ "),
    ],
)
def test_curve_has_the_means_of_stretches_of_days(
    rates: list[str | None], width: int, drawn: str
) -> None:
    """From the least mean to the greatest; means that are all alike are half way, a gap a space."""
    shown = series_of({"USD": rates, "GBP": ["1"] * len(rates)})

    assert curve(shown.rates["USD"], shown.days, width) == drawn
