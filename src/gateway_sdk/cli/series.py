"""Series of rates, out of replies of which the interface says nothing; and their rows as CSV.

Replies are parsed by `gateway_sdk.bulk.rate_rows` alone; this turns its rows into what is shown.
"""

import csv
import io
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import IO, Any, Final

from gateway_sdk.bulk import BulkResult, RateRow, rate_rows
from gateway_sdk.cli.output.files import writing
from gateway_sdk.cli.output.table import Table
from gateway_sdk.cli.output.values import to_cell
from gateway_sdk.models import ExchangeRateSeriesRequest

MOST_DIGITS: Final = 36
"""Before and behind the point: Parquet's decimals have 76 together, and rates some seven."""


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
        """Give the rates of one currency by day, ascending."""
        return {day: found[symbol] for day, found in self.rates.items() if symbol in found}

    def table(self) -> Table:
        """Make a table with a row per day and a column per currency."""
        rows = [
            [day.isoformat(), *(rates.get(symbol) for symbol in self.symbols)]
            for day, rates in self.rates.items()
        ]
        return Table(("date", *self.symbols), rows)

    def columns(self) -> dict[str, list[Any]]:
        """Give the same by column, days as days."""
        rates = {
            symbol: [found.get(symbol) for found in self.rates.values()] for symbol in self.symbols
        }
        return {"date": self.days, **rates}


def read_series(reply: Any, base: str, symbols: Sequence[str]) -> Series | None:
    """Make a series of a reply; None if it has another shape than days with positive rates."""
    rows = rate_rows(reply, base=base)
    if rows is None or not all(_is_plausible(row.rate) for row in rows):
        return None
    return series_of(rows, base, symbols)


def series_of(rows: Sequence[RateRow], base: str, symbols: Sequence[str]) -> Series:
    """Make a series of rows in any order."""
    rates: dict[date, dict[str, Decimal]] = {day: {} for day in sorted({row.date for row in rows})}
    for row in rows:
        rates[row.date][row.symbol] = Decimal(row.rate)
    return Series(base, list(dict.fromkeys([*symbols, *(row.symbol for row in rows)])), rates)


def _is_plausible(rate: Any) -> bool:
    number = Decimal(rate)
    digits = abs(number.adjusted()) + len(number.as_tuple().digits)
    return number.is_finite() and number > 0 and digits <= MOST_DIGITS


def to_journal(value: Any) -> Any:
    """Make a reply fit for the journal: a number that no float can hold becomes a string."""
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


def rows_of(value: Any, base: str) -> list[RateRow] | None:
    """Make rows of a reply, whether it has just come or stood in the journal.

    Returns:
        The rows by date, their rates as Decimals; None if the reply has another shape.
    """
    match to_journal(value):
        case {"rates": dict(days)} as reply:
            exact = {day: _exact(found) for day, found in days.items()}
            return rate_rows({**reply, "rates": exact}, base=base)
        case _:
            return None


def _exact(found: Any) -> Any:
    """Take what stands where the rates of a day do as exact numbers."""
    if not isinstance(found, dict):
        return found
    return {symbol: _number(rate) for symbol, rate in found.items()}


def _number(rate: Any) -> Any:
    try:
        number = Decimal(str(rate))
    except InvalidOperation:
        return rate
    return number if number.is_finite() else rate


class Rows:
    """Writes rates as rows of a CSV file (RFC 4180) while they come.

    Attributes:
        written: How many.
        other_shapes: Replies that no rows could be made of.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.written = 0
        self.other_shapes = 0
        self._text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        self._writer = csv.writer(self._text)
        self._writer.writerow(RateRow._fields)

    def add(self, result: BulkResult[ExchangeRateSeriesRequest, Any]) -> None:
        """Write the rows of a result, by date; a failed one has none."""
        if result.error is not None:
            return
        rows = rows_of(result.value, result.item.base)
        if rows is None:
            self.other_shapes += 1
            return
        self.written += len(rows)
        self._writer.writerows([to_cell(value) for value in row] for row in rows)

    def end(self) -> None:
        """Hand the file back with all in it."""
        self._text.detach()


@contextmanager
def writing_rows(path: Path | None) -> Generator[Rows | None]:
    """Give what writes rows into a file, which is there only if all went well; None for none."""
    if path is None:
        yield None
        return
    with writing(path) as file:
        rows = Rows(file)
        yield rows
        rows.end()
