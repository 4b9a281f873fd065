"""Curves of text: on one line, or with a scale and as wide as the terminal."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from statistics import fmean
from typing import Final

from gateway_sdk.cli.output.console import make_console
from gateway_sdk.cli.output.values import printable, to_cell
from gateway_sdk.cli.series import Series

BLOCKS: Final = "▁▂▃▄▅▆▇█"

LINES: Final = 6
"""Of a curve: 48 steps from its lowest to its highest rate."""

SIDE: Final = 12
"""Columns for the highest and the lowest rate beside it."""


def area(values: Sequence[float | None], lines: int = 1) -> list[str]:
    """Draw a filled curve of several lines, the top one first; the least value is a thin line.

    Values that are all the same are drawn at half height, and None is a gap.
    """
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    steps = lines * len(BLOCKS) - 1

    def height(value: float | None) -> int:
        if value is None:
            return 0
        return 1 + (round((value - low) / (high - low) * steps) if high > low else steps // 2)

    heights = [height(value) for value in values]
    # Each line shows its part of the height, which may be below or above the line.
    return [
        "".join(f" {BLOCKS}"[max(0, min(height - below, len(BLOCKS)))] for height in heights)
        for below in range((lines - 1) * len(BLOCKS), -1, -len(BLOCKS))
    ]


def resample(
    rates: Mapping[date, Decimal], first_day: date, last_day: date, count: int
) -> list[float | None]:
    """Average the rates over *count* parts of the days, of equal length.

    A part without rates, such as a Sunday, has the mean of the one before. None stands before
    the first rate and after the last one.
    """
    span = (last_day - first_day).days + 1
    parts: list[list[float]] = [[] for _ in range(count)]
    for day, rate in rates.items():
        parts[(day - first_day).days * count // span].append(float(rate))
    last = (max(rates) - first_day).days if rates else -1
    means: list[float | None] = [None]
    for place, part in enumerate(parts):
        before = means[-1] if place * span // count <= last else None
        means.append(fmean(part) if part else before)
    return means[1:]


def draw_curves(series: Series) -> str:
    """Draw each currency with its own scale, as wide as the terminal."""
    room = make_console().width - SIDE
    blocks = ("\n".join(_curve(series, symbol, room)) for symbol in series.rates)
    return "\n\n".join(blocks) + "\n"


def _curve(series: Series, symbol: str, room: int) -> Iterator[str]:
    found = series.rates[symbol]
    name = f"{printable(series.base)} in {printable(symbol)}"
    if not found:
        yield f"{name}: no rates"
        return
    days, rates = list(found), list(found.values())
    change = f", {series.change(symbol):+.1f} %" if len(rates) > 1 else ""
    yield f"{name}: {to_cell(rates[0])} to {to_cell(rates[-1])}{change}"
    span = (days[-1] - days[0]).days + 1
    # As wide as each of few days can be, all alike.
    width = room if span > room else room // span * span
    labels = [to_cell(max(rates)), *[""] * (LINES - 2), to_cell(min(rates))]
    drawn = area(resample(found, days[0], days[-1], width), LINES)
    for label, line in zip(labels, drawn, strict=True):
        yield f"{label[: SIDE - 2]:>{SIDE - 2}}  {line}".rstrip()
    ends = f"{days[0]}{days[-1]!s:>{max(width, 2 * SIDE) - SIDE + 2}}"
    yield " " * SIDE + (ends if len(days) > 1 else str(days[0]))
