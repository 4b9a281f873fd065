"""Exchange rates as the commands show them, and as rows of CSV.

The interface leaves replies open: `gateway_sdk.bulk.rate_rows` reads the usual shape.
"""

import csv
import io
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from gateway_sdk.bulk import BulkResult, RateRow, rate_rows
from gateway_sdk.cli.output.files import writing
from gateway_sdk.cli.output.table import Table
from gateway_sdk.cli.output.values import to_cell
from gateway_sdk.models import ExchangeRateSeriesRequest

MOST_DIGITS: Final = 36
"""Before and after the point: a Parquet decimal has at most 76 together. Rates have about seven."""


@dataclass(frozen=True, slots=True)
class Series:
    """Rates of currencies against one, by day.

    Attributes:
        base: The currency that the rates are for one unit of.
        symbols: The others: those asked for, in that order, and what else the gateway sent.
        rates: By day, ascending, and currency; not every day has every currency.
    """

    base: str
    symbols: Sequence[str]
    rates: Mapping[date, Mapping[str, Decimal]]

    @property
    def days(self) -> list[date]:
        """The days that have any rate, ascending."""
        return list(self.rates)

    def of(self, symbol: str) -> dict[date, Decimal]:
        """Return the rates of one currency by day, ascending."""
        return {day: found[symbol] for day, found in self.rates.items() if symbol in found}

    def change(self, symbol: str) -> Decimal:
        """Return by how many per cent a rate rose from its first day to its last."""
        rates = list(self.of(symbol).values())
        return 100 * (rates[-1] / rates[0] - 1)

    def table(self) -> Table:
        """Make a table with a row per day and a column per currency."""
        columns = self.columns()
        rows = [[day.isoformat(), *rates] for day, *rates in zip(*columns.values(), strict=True)]
        return Table(list(columns), rows)

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of that table, with days as dates."""
        found = self.rates.values()
        return {"date": self.days} | {
            symbol: [rates.get(symbol) for rates in found] for symbol in self.symbols
        }


def read_series(reply: Any, base: str, symbols: Sequence[str]) -> Series | None:
    """Make a series of a reply; None if it has another shape than days with positive rates."""
    rows = rows_of(reply, base)
    if rows is None or not all(_is_plausible(row.rate) for row in rows):
        return None
    return series_of(rows, base, symbols)


def series_of(rows: Sequence[RateRow], base: str, symbols: Sequence[str]) -> Series:
    """Make a series of rows in any order."""
    rates: dict[date, dict[str, Decimal]] = {day: {} for day in sorted({row.date for row in rows})}
    for row in rows:
        rates[row.date][row.symbol] = row.rate
    return Series(base, list(dict.fromkeys([*symbols, *(row.symbol for row in rows)])), rates)


def _is_plausible(rate: Decimal) -> bool:
    return rate > 0 and abs(rate.adjusted()) + len(rate.as_tuple().digits) <= MOST_DIGITS


def rows_of(reply: Any, base: str) -> list[RateRow] | None:
    """Make rows of a reply, of this run or from the journal.

    Returns:
        The rows by date, their rates as Decimals; None if the reply has another shape.
    """
    rows = rate_rows(reply, base=base)
    return rows and [row._replace(rate=Decimal(str(row.rate))) for row in rows]


def to_journal(value: Any) -> Any:
    """Make JSON of a reply: a number that would lose digits as a float becomes a string."""
    match value:
        case Decimal():
            number = float(value)
            return number if Decimal(repr(number)) == value else str(value)
        case dict():
            return {name: to_journal(inner) for name, inner in value.items()}
        case list():
            return [to_journal(inner) for inner in value]
        case _:
            return value


@dataclass(slots=True)
class Rows:
    """Writes rates as rows of a CSV file (RFC 4180) as they arrive, and counts them.

    Attributes:
        writer: The writer of the file.
        written: The rows so far.
        other_shapes: The replies of another shape, which have no rows.
    """

    writer: Any
    written: int = 0
    other_shapes: int = 0

    def add(self, result: BulkResult[ExchangeRateSeriesRequest, Any]) -> None:
        """Write the rows of a result, by date; a failed one has none."""
        if result.error is not None:
            return
        rows = rows_of(result.value, result.item.base)
        self.other_shapes += rows is None
        self.written += len(rows or ())
        self.writer.writerows([to_cell(value) for value in row] for row in rows or ())


@contextmanager
def writing_rows(path: Path | None) -> Generator[Rows | None]:
    """Yield a writer of rows; the file appears at the end, if nothing failed. None without path."""
    if path is None:
        yield None
        return
    with writing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        rows = Rows(csv.writer(text))
        rows.writer.writerow(RateRow._fields)
        yield rows
        text.detach()  # flushes it
