"""Curves in a line of text. Pure."""

from collections.abc import Mapping, Sequence
from datetime import date
from statistics import fmean
from typing import Final

BLOCKS: Final = "▁▂▃▄▅▆▇█"
FLAT: Final = "▄"


def sparkline(values: Sequence[float | None]) -> str:
    """Draw one block per value, the least lowest and the greatest highest; None is a space."""
    known = [value for value in values if value is not None]
    if not known:
        return " " * len(values)
    low, high = min(known), max(known)
    return "".join(" " if value is None else _block(value, low, high) for value in values)


def area(values: Sequence[float], lines: int) -> list[str]:
    """Draw a filled curve of several lines, the top one first; the least value is a low edge."""
    low, high = min(values), max(values)
    steps = lines * len(BLOCKS) - 1
    heights = [
        1 + (round((value - low) / (high - low) * steps) if high > low else steps // 2)
        for value in values
    ]
    return [
        "".join(_slice(height - line * len(BLOCKS)) for height in heights)
        for line in reversed(range(lines))
    ]


def resample(
    rates: Mapping[date, float], first_day: date, last_day: date, count: int
) -> list[float | None]:
    """Average the rates over *count* stretches of equal length; None where there are none.

    The stretches cover the whole range, so that a series that ends early has Nones at its end.
    """
    span = (last_day - first_day).days + 1
    stretches: list[list[float]] = [[] for _ in range(count)]
    for day, rate in rates.items():
        stretches[(day - first_day).days * count // span].append(rate)
    return [fmean(stretch) if stretch else None for stretch in stretches]


def _slice(height: int) -> str:
    """Draw what one line shows of a height, which may be less than nothing or more than a line."""
    return f" {BLOCKS}"[max(0, min(height, len(BLOCKS)))]


def _block(value: float, low: float, high: float) -> str:
    if low == high:
        return FLAT
    return BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))]
