"""Exchange rates as they are shown: tables and curves of text."""

import io
import json
import re
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic_core import to_json

from gateway_sdk.bulk import rate_rows
from gateway_sdk.cli.series import area, draw_curves, read_series, resample, shortest, to_parquet
from tests.cli.support import FIRST, series_of

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
    assert list(series.columns()) == ["date", "GBP", "USD", "SEK", "XAU"]
    assert series.columns()["USD"] == [Decimal("1.20"), Decimal("1.10")]


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
        # What cannot be drawn, nor kept as a Parquet decimal.
        *map(series, (0, -1, *map(Decimal, ("1E+400000", "1E-400000", "1." + "1" * 40)))),
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


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.posix  # rich makes a console of Windows one narrower
def test_long_series_is_averaged_to_the_width() -> None:
    rates = [str(1 + number % 700) for number in range(3650)]

    drawn = draw_curves(series_of({"USD": list(rates)})).splitlines()

    assert {len(line) for line in drawn[6:]} == {80}
    assert drawn[7].split() == ["2026-01-01", "2035-12-29"]


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
    ("rates", "heading"),
    [
        ([None, "1.5", None], "EUR in USD: 1.5 to 1.5"),
        ([None], "EUR in USD: no rates"),
        (["2", "1"], "EUR in USD: 2 to 1, -50.0 %"),
    ],
)
def test_each_currency_has_a_heading_and_a_curve(rates: list[str | None], heading: str) -> None:
    """They stand one below another, parted by a line; one day is a curve."""
    drawn = draw_curves(series_of({"USD": rates, "GBP": ["3", "4"]}))
    first, _, second = drawn.partition("\n\nEUR in GBP: ")

    assert first.splitlines()[0] == heading
    assert len(first.splitlines()) == (1 if "no rates" in heading else 8)
    assert second.startswith("3 to 4, +33.3 %\n")
    assert second.split()[-2:] == ["2026-01-01", "2026-01-02"]


@pytest.mark.parametrize(
    ("values", "lines", "drawn"),
    [
        ([], 1, [""]),
        ([-1, 0, 1], 1, ["▁▅█"]),
        ([1, None, 2], 1, ["▁ █"]),
        ([0, 7, 8, 15], 2, ["  ▁█", "▁███"]),
        ([5, 5], 3, ["  ", "▄▄", "██"]),
    ],
)
def test_area_is_filled_from_below(
    values: Sequence[float | None], lines: int, drawn: list[str]
) -> None:
    """The greatest value reaches the top, the least leaves an edge, one that stays is half way.

    A gap is a space.
    """
    assert area(values, lines) == drawn


@given(st.lists(st.floats(-1e30, 1e30), min_size=1), st.integers(1, 9))
def test_area_has_no_hole(values: list[float], lines: int) -> None:
    """Below what is drawn everything is drawn, and greater values are never lower."""
    drawn = area(values, lines)

    columns = ["".join(line[place] for line in drawn) for place in range(len(values))]
    heights = [sum(" ▁▂▃▄▅▆▇█".index(block) for block in column) for column in columns]
    assert all(re.fullmatch(" *[▁▂▃▄▅▆▇█]█*", column) for column in columns)
    ranked = sorted(zip(values, heights, strict=True))
    assert [height for _, height in ranked] == sorted(heights)


def test_parquet_keeps_days_decimals_and_gaps() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    series = series_of({"USD": ["1.10", None], "XAU": ["0.00024", "12345.6"], "SEK": [None, None]})

    table = parquet.read_table(io.BytesIO(to_parquet(series)))

    assert table.to_pydict() == {
        "date": [FIRST, FIRST + timedelta(days=1)],
        "USD": [Decimal("1.10"), None],
        "XAU": [Decimal("0.00024"), Decimal("12345.6")],
        "SEK": [None, None],
    }
    assert str(table.schema.field("date").type) == "date32[day]"
