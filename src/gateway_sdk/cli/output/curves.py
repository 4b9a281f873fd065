"""Curves in text: in one line, or with a scale and as wide as the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from statistics import fmean
from typing import Final

from gateway_sdk.cli.output.console import make_console
from gateway_sdk.cli.output.values import printable, to_cell
from gateway_sdk.cli.series import Series

BLOCKS: Final = "▁▂▃▄▅▆▇█"
FLAT: Final = "▄"

LINES: Final = 6
"""Of a curve: 48 steps from its lowest to its highest rate."""

FEWEST: Final = 40
"""Columns of a curve with its side, however narrow the terminal."""
SIDE: Final = 12
"""Columns for the highest and the lowest rate beside it."""


def sparkline(values: Sequence[float | None]) -> str:
    """Draw one block per value, the least lowest and the greatest highest; None is a space."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return "".join(" " if value is None else _block(value, low, high) for value in values)


def _block(value: float, low: float, high: float) -> str:
    if low == high:
        return FLAT
    return BLOCKS[round((value - low) / (high - low) * (len(BLOCKS) - 1))]


def resample(
    rates: Mapping[date, Decimal | float], first_day: date, last_day: date, count: int
) -> list[float | None]:
    """Average the rates over *count* stretches of equal length; None where there are none.

    The stretches cover the whole range, so that a series that ends early has Nones at its end.
    """
    span = (last_day - first_day).days + 1
    stretches: list[list[float]] = [[] for _ in range(count)]
    for day, rate in rates.items():
        stretches[(day - first_day).days * count // span].append(float(rate))
    return [fmean(stretch) if stretch else None for stretch in stretches]


def draw_curves(series: Series) -> str:
    """Draw what there is of each currency, with its own scale, as wide as the terminal."""
    room = make_console(fewest_columns=FEWEST).width - SIDE
    blocks = ("\n".join(_curve(series, symbol, room)) for symbol in series.symbols)
    return "\n\n".join(blocks) + "\n"


def _curve(series: Series, symbol: str, room: int) -> Iterator[str]:
    found = series.of(symbol)
    name = f"{printable(series.base)} in {printable(symbol)}"
    if not found:
        yield f"{name}: no rates"
        return
    days, rates = list(found), list(found.values())
    change = f", {float(100 * (rates[-1] / rates[0] - 1)):+.1f} %" if len(rates) > 1 else ""
    yield f"{name}: {to_cell(rates[0])} to {to_cell(rates[-1])}{change}"
    heights = _spread([float(rate) for rate in rates], room)
    labels = [to_cell(max(rates)), *[""] * (LINES - 2), to_cell(min(rates))]
    for label, line in zip(labels, area(heights, LINES), strict=True):
        yield f"{label[: SIDE - 2]:>{SIDE - 2}}  {line}".rstrip()
    ends = f"{days[0]}{days[-1]!s:>{max(len(heights), 2 * SIDE) - SIDE + 2}}"
    yield " " * SIDE + (ends if len(days) > 1 else str(days[0]))


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


def _slice(height: int) -> str:
    """Draw what one line shows of a height, which may be less than nothing or more than a line."""
    return f" {BLOCKS}"[max(0, min(height, len(BLOCKS)))]


def _spread(values: list[float], room: int) -> list[float]:
    """Give so many values that they fill the room: averages of many, or each of few repeatedly."""
    if len(values) <= room:
        return [value for value in values for _ in range(room // len(values))]
    edges = [place * len(values) // room for place in range(room + 1)]
    return [fmean(values[low:high]) for low, high in pairwise(edges)]
