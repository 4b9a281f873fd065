import re
from collections.abc import Sequence
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_sdk.cli.sparkline import area, resample, sparkline


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
    assert sparkline(values) == drawn


def test_resampling_averages_each_stretch() -> None:
    """Six days in three stretches are three means."""
    rates = {date(2026, 1, day): float(day) for day in range(1, 7)}

    assert resample(rates, date(2026, 1, 1), date(2026, 1, 6), 3) == [1.5, 3.5, 5.5]


def test_resampling_shows_where_a_series_ends() -> None:
    """The stretches cover the range that was asked for, not the one that came."""
    rates = {date(2026, 1, 1): 1.0, date(2026, 1, 2): 3.0}

    assert resample(rates, date(2026, 1, 1), date(2026, 1, 8), 4) == [2.0, None, None, None]


def test_resampling_a_single_day_fills_the_first_stretch() -> None:
    """A range of one day is no division by nothing."""
    day = date(2026, 1, 1)

    assert resample({day: 2.0}, day, day, 3) == [2.0, None, None]


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
