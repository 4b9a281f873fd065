"""Curves in a terminal, one for each currency."""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import pairwise
from statistics import fmean
from typing import Final

from gateway_sdk.cli.console import make_console
from gateway_sdk.cli.output.printable import printable
from gateway_sdk.cli.output.values import to_cell
from gateway_sdk.cli.rates.series import Series
from gateway_sdk.cli.sparkline import area

LINES: Final = 6
"""Of a curve: 48 steps from its lowest to its highest rate."""

SIDE: Final = 12
"""Columns for the highest and the lowest rate beside it."""


def draw_curves(series: Series) -> str:
    """Draw what there is of each currency, with its own scale, as wide as the terminal."""
    room = make_console().width - SIDE
    blocks = ("\n".join(_curve(series, symbol, room)) for symbol in series.symbols)
    return "\n\n".join(blocks) + "\n"


def _curve(series: Series, symbol: str, room: int) -> Iterator[str]:
    found = [(day, rate) for day, rate in zip(series.days, series.of(symbol), strict=True) if rate]
    name = f"{printable(series.base)} in {printable(symbol)}"
    if not found:
        yield f"{name}: no rates"
        return
    rates = [rate for _, rate in found]
    yield f"{name}: {to_cell(rates[0])} to {to_cell(rates[-1])}{_change(rates)}"
    heights = _spread([float(rate) for rate in rates], room)
    drawn = area(heights, LINES)
    labels = [to_cell(max(rates)), *[""] * (LINES - 2), to_cell(min(rates))]
    for label, line in zip(labels, drawn, strict=True):
        yield f"{label[: SIDE - 2]:>{SIDE - 2}}  {line}".rstrip()
    yield " " * SIDE + _axis(found[0][0], found[-1][0], len(heights))


def _change(rates: list[Decimal]) -> str:
    if len(rates) == 1:
        return ""
    return f", {float(100 * (rates[-1] / rates[0] - 1)):+.1f} %"


def _spread(values: list[float], room: int) -> list[float]:
    """Give so many values that they fill the room: averages of many, or each of few repeatedly."""
    if len(values) <= room:
        return [value for value in values for _ in range(room // len(values))]
    edges = [place * len(values) // room for place in range(room + 1)]
    return [fmean(values[low:high]) for low, high in pairwise(edges)]


def _axis(first: date, last: date, width: int) -> str:
    return str(first) if first == last else f"{first}{last!s:>{width - len(str(first))}}"
