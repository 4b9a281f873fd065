import re
from collections.abc import Sequence
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_sdk.cli.output.curves import area, draw_curves, resample
from tests.cli.drawn import series_of


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw in a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")


def test_curve_has_its_scale_and_its_days() -> None:
    """The heading tells the change, the side the highest and lowest rate, the foot the days."""
    drawn = draw_curves(series_of({"USD": ["1.10", "1.30", "1.21"]})).splitlines()

    assert drawn[0] == "EUR in USD: 1.10 to 1.21, +10.0 %"
    assert drawn[1] == "      1.30  " + " " * 22 + "█" * 22
    assert drawn[6] == "      1.10  " + "▁" * 22 + "█" * 44
    assert drawn[7] == " " * 12 + "2026-01-01" + " " * 46 + "2026-01-03"
    assert max(map(len, drawn)) <= 80


def test_long_series_is_averaged_to_the_width() -> None:
    """Ten years fit, from their first day to their last."""
    rates = [str(1 + number % 700) for number in range(3650)]

    drawn = draw_curves(series_of({"USD": list(rates)})).splitlines()

    assert {len(line) for line in drawn[6:]} == {80}
    assert drawn[7].split() == ["2026-01-01", "2035-12-29"]


@pytest.mark.parametrize(
    ("rates", "heading"),
    [
        (["1.5"], "EUR in USD: 1.5 to 1.5"),
        ([None, "1.5", None], "EUR in USD: 1.5 to 1.5"),
        ([None], "EUR in USD: no rates"),
        (["2", "1"], "EUR in USD: 2 to 1, -50.0 %"),
    ],
)
def test_gaps_and_single_rates_are_drawn(rates: list[str | None], heading: str) -> None:
    """A day without a rate is left out, and one day is a curve."""
    drawn = draw_curves(series_of({"USD": rates})).splitlines()

    assert drawn[0] == heading
    assert len(drawn) == (1 if "no rates" in heading else 8)


def test_each_currency_has_a_curve() -> None:
    """They stand one below another, parted by a line."""
    drawn = draw_curves(series_of({"USD": ["1", "2"], "GBP": ["3", "4"]}))

    assert [block.split(":")[0] for block in drawn.split("\n\n")] == ["EUR in USD", "EUR in GBP"]


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([], ""),
        ([1, 2, 3, 4, 5, 6, 7, 8], "▁▂▃▄▅▆▇█"),
        ([8, 1], "█▁"),
        ([-1, 0, 1], "▁▅█"),
        ([1.9558, 1.9558, 1.9558], "▄▄▄"),
        ([5], "▄"),
        ([1, None, 2], "▁ █"),
        ([None, None], "  "),
        ([1e-9, 2e-9], "▁█"),
    ],
)
def test_curve_has_a_block_per_value(values: Sequence[float | None], drawn: str) -> None:
    """The least value is the lowest block, the greatest the highest, and a gap a space."""
    assert area(values) == [drawn]


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


def test_a_week_without_rates_takes_its_room() -> None:
    """The days stand where they are in time, and not one beside the next."""
    rates: list[str | None] = ["1", *[None] * 9, "2"]

    lowest = draw_curves(series_of({"USD": rates})).splitlines()[6]

    assert lowest == "         1  " + "▁" * 60 + "█" * 6


@pytest.mark.parametrize(
    ("values", "lines", "drawn"),
    [
        ([0, 7], 1, ["▁█"]),
        ([0, 15], 2, [" █", "▁█"]),
        ([0, 7, 8, 15], 2, ["  ▁█", "▁███"]),
        ([5], 2, [" ", "█"]),
        ([5, 5], 3, ["  ", "▄▄", "██"]),
    ],
)
def test_area_is_filled_from_below(values: Sequence[float], lines: int, drawn: list[str]) -> None:
    """The greatest value reaches the top, the least leaves an edge, one that stays is half way."""
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
