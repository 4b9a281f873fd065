"""Exchange rates as the commands show them, and as rows of CSV.

The interface leaves replies open: `gateway_sdk.bulk.rate_rows` reads the usual shape.
"""

import csv
import io
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from gateway_sdk.bulk import BulkResult, RateRow, rate_rows
from gateway_sdk.cli.output.files import writing
from gateway_sdk.cli.output.show import Table
from gateway_sdk.cli.output.values import to_cell
from gateway_sdk.models import ExchangeRateSeriesRequest

MOST_DIGITS: Final = 36
"""Before and after the point: a Parquet decimal has at most 76 together. Rates have about seven."""


@dataclass(frozen=True, slots=True)
class Series:
    """The rates of currencies by day, for one unit of *base*.

    The currencies are those asked for, in that order, and what else the gateway sent. The days of
    each ascend; not every day has every currency.
    """

    base: str
    rates: Mapping[str, Mapping[date, Decimal]]

    @property
    def days(self) -> list[date]:
        """The days that have any rate, ascending."""
        return sorted({day for found in self.rates.values() for day in found})

    def change(self, symbol: str) -> Decimal:
        """Return by how many per cent a rate rose from its first day to its last."""
        rates = list(self.rates[symbol].values())
        return 100 * (rates[-1] / rates[0] - 1)

    def columns(self) -> dict[str, list[Any]]:
        """Return the days, and the rates of each currency on them."""
        days = self.days
        rates = {symbol: [found.get(day) for day in days] for symbol, found in self.rates.items()}
        return {"date": days, **rates}

    def table(self) -> Table:
        """Make a table with a row per day and a column per currency."""
        columns = self.columns()
        return Table(list(columns), list(zip(*columns.values(), strict=True)))


def series_of(rows: Iterable[RateRow], base: str, symbols: Iterable[str]) -> Series:
    """Make a series of rows by date."""
    rates: dict[str, dict[date, Decimal]] = {symbol: {} for symbol in symbols}
    for row in rows:
        rates.setdefault(row.symbol, {})[row.date] = row.rate
    return Series(base, rates)


def read_series(reply: Any, base: str, symbols: Iterable[str]) -> Series | None:
    """Make a series of a reply; None if it has another shape than days with positive rates."""
    rows = rows_of(reply, base)
    if rows is None or not all(_is_plausible(row.rate) for row in rows):
        return None
    return series_of(rows, base, symbols)


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


class Rows:
    """Writes rates as rows of a CSV file (RFC 4180) as they arrive, and counts them.

    Replies of another shape, which have no rows, are counted too.
    """

    def __init__(self, file: io.TextIOBase) -> None:
        self._writer = csv.writer(file)
        self._writer.writerow(RateRow._fields)
        self.written = self.other_shapes = 0

    def add(self, result: BulkResult[ExchangeRateSeriesRequest, Any]) -> None:
        """Write the rows of a result, by date; a failed one has none."""
        if result.error is not None:
            return
        rows = rows_of(result.value, result.item.base)
        self.other_shapes += rows is None
        self.written += len(rows or ())
        self._writer.writerows([to_cell(value) for value in row] for row in rows or ())


@contextmanager
def writing_rows(path: Path | None) -> Generator[Rows | None]:
    """Yield a writer of rows; the file appears at the end, if nothing failed. None without path."""
    if path is None:
        yield None
        return
    with writing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield Rows(text)
        text.detach()  # flushes it
