"""Exchange rates as the commands show them: tables, curves of text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from statistics import fmean
from typing import Any, Final

from gateway_sdk.bulk import RateRow, rate_rows
from gateway_sdk.cli.output import Table, make_console, to_cell
from gateway_sdk.cli.process import printable

MOST_DIGITS: Final = 36
"""Before and after the point: a Parquet decimal has at most 76 together. Rates have about seven."""


@dataclass(frozen=True, slots=True)
class Series:
    base: str
    # The currencies asked for, in that order, then what else the gateway sent. The days of each
    # ascend; not every day has every currency.
    rates: Mapping[str, Mapping[date, Decimal]]

    @property
    def days(self) -> list[date]:
        return sorted({day for found in self.rates.values() for day in found})

    def change(self, symbol: str) -> Decimal:
        rates = list(self.rates[symbol].values())
        return 100 * (rates[-1] / rates[0] - 1)

    def columns(self) -> dict[str, list[Any]]:
        days = self.days
        rates = {symbol: [found.get(day) for day in days] for symbol, found in self.rates.items()}
        return {"date": days, **rates}

    def table(self) -> Table:
        columns = self.columns()
        return Table(list(columns), list(zip(*columns.values(), strict=True)))


def read_series(reply: Any, base: str, symbols: Iterable[str]) -> Series | None:
    rows = rows_of(reply, base)
    if rows is None or not all(_is_plausible(row.rate) for row in rows):
        return None
    rates: dict[str, dict[date, Decimal]] = {symbol: {} for symbol in symbols}
    for row in rows:
        rates.setdefault(row.symbol, {})[row.date] = row.rate
    return Series(base, rates)


def _is_plausible(rate: Decimal) -> bool:
    return rate > 0 and abs(rate.adjusted()) + len(rate.as_tuple().digits) <= MOST_DIGITS


def rows_of(reply: Any, base: str) -> list[RateRow] | None:
    """Make rows of a reply, by date and with Decimals; None if it has another shape."""
    rows = rate_rows(reply, base=base)
    return rows and [row._replace(rate=Decimal(str(row.rate))) for row in rows]


def shortest(text: str) -> float | Decimal:
    """Read a number of JSON; a float, which the journal has as a number, if it has all digits."""
    number, exact = float(text), Decimal(text)
    return number if Decimal(repr(number)) == exact else exact


BLOCKS: Final = "▁▂▃▄▅▆▇█"

LINES: Final = 6  # of a curve: 48 steps from its lowest to its highest rate
SIDE: Final = 12  # columns for the highest and the lowest rate beside it


def area(values: Sequence[float | None], lines: int = 1) -> list[str]:
    """Draw a filled curve of several lines, the top one first; the least value is a thin line."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    steps = lines * len(BLOCKS) - 1

    def height(value: float | None) -> int:
        if value is None:
            return 0  # a gap
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
    span = (last_day - first_day).days + 1
    parts: list[list[float]] = [[] for _ in range(count)]
    for day, rate in rates.items():
        parts[(day - first_day).days * count // span].append(float(rate))
    last = (max(rates) - first_day).days if rates else -1
    means: list[float | None] = [None]
    # A part without rates, such as a Sunday, has the mean of the one before. None stands before the
    # first rate and after the last one.
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
