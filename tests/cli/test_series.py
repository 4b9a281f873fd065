"""Exchange rates as they are shown: tables and small curves of text."""

import json
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic_core import to_json

from gateway_sdk.bulk import rate_rows
from gateway_sdk.cli.series import area, read_series, resample, shortest

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
    assert series.table().columns == ["date", "GBP", "USD", "SEK", "XAU"]
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
        *map(series, (0, -1, Decimal("1E+400000"), Decimal("1E-400000"))),  # cannot be drawn
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
    ("rates", "last_day", "means"),
    [
        ({1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}, 6, [1.5, 3.5, 5.5]),
        ({1: 1, 2: 3}, 6, [2, None, None]),
        ({1: 1, 6: 3}, 6, [1, 1, 3]),
        ({4: 1}, 6, [None, 1, None]),
        ({1: 2}, 1, [2, 2, 2]),
        ({}, 6, [None, None, None]),
    ],
)
def test_resampling_averages_stretches_of_days(
    rates: dict[int, int], last_day: int, means: list[float | None]
) -> None:
    """The whole range is covered; a part between rates has those of the one before."""
    found = {date(2026, 1, day): Decimal(rate) for day, rate in rates.items()}

    assert resample(found, date(2026, 1, 1), date(2026, 1, last_day), 3) == means


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([], ""), ([-1, 0, 1], "▁▅█"), ([1, None, 2], "▁ █"), ([5, 5], "▅▅")],
)
def test_area_is_filled_from_below(values: Sequence[float | None], drawn: str) -> None:
    """The greatest value is a full block, the least an edge, one that stays is half way."""
    assert area(values) == drawn


@given(st.lists(st.floats(-1e30, 1e30), min_size=1))
def test_greater_values_are_never_lower(values: list[float]) -> None:
    heights = ["▁▂▃▄▅▆▇█".index(block) for block in area(values)]

    assert [height for _, height in sorted(zip(values, heights, strict=True))] == sorted(heights)
