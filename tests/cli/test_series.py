"""Exchange rates as they are shown: tables and a curve of blocks."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic_core import to_json

from gateway_sdk.bulk import rate_rows
from gateway_sdk.cli.arguments import shortest
from gateway_sdk.cli.series import curve, read_series
from tests.cli.support import series_of


def series(rate: Any) -> dict[str, Any]:
    return {"base": "EUR", "rates": {"2026-10-30": {"USD": rate}}}


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


@pytest.mark.parametrize("rate", [0, -1, *map(Decimal, ("1E+400000", "1E-400000"))])
def test_a_rate_that_cannot_be_drawn_is_a_row_all_the_same(rate: Any) -> None:
    found = read_series(series(rate), "EUR", ["USD"])

    assert found is not None
    assert [row[1] for row in found.table().rows] == [rate]
    assert not found.can_be_drawn
