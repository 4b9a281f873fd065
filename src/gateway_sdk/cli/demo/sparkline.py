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


def _block(value: float, low: float, high: float) -> str:
    if low == high:
        return FLAT
    return BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))]
