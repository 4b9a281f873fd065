"""A series of rates, out of a reply of which the interface says nothing. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

from gateway_sdk.cli.output.table import Table
from gateway_sdk.cli.output.values import is_number

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

    def of(self, symbol: str) -> list[Decimal | None]:
        """Give the rates of one currency, one for each day; None where there is none."""
        return [self.rates[day].get(symbol) for day in self.rates]

    def table(self) -> Table:
        """Make a table with a row per day and a column per currency."""
        rows = [
            [day.isoformat(), *(rates.get(symbol) for symbol in self.symbols)]
            for day, rates in self.rates.items()
        ]
        return Table(("date", *self.symbols), rows)

    def columns(self) -> dict[str, list[Any]]:
        """Give the same by column, days as days."""
        return {"date": self.days, **{symbol: self.of(symbol) for symbol in self.symbols}}


def read_series(reply: Any, base: str, symbols: Sequence[str]) -> Series | None:
    """Read the common shape, {"rates": {day: {currency: number}}}; None if it is another.

    A day is one of ISO 8601, a number is more than 0.
    """
    match reply:
        case {"rates": dict(rates)}:
            pass
        case _:
            return None
    try:
        by_day = {date.fromisoformat(day): _numbers(found) for day, found in rates.items()}
    except ValueError:
        return None
    ordered = {day: by_day[day] for day in sorted(by_day)}
    sent = {symbol: None for found in ordered.values() for symbol in found}
    return Series(base, list(dict.fromkeys([*symbols, *sent])), ordered)


def _numbers(found: Any) -> dict[str, Decimal]:
    """Read the rates of a day.

    Raises:
        ValueError: they are not numbers under names.
    """
    if not isinstance(found, Mapping) or not all(is_number(rate) for rate in found.values()):
        raise ValueError("no rates")
    rates = {symbol: Decimal(rate) for symbol, rate in found.items()}
    if not all(_is_of_this_world(rate) for rate in rates.values()):
        raise ValueError("no rates that can be drawn or kept in a column")
    return rates


def _is_of_this_world(rate: Decimal) -> bool:
    return rate > 0 and abs(rate.adjusted()) + len(rate.as_tuple().digits) <= MOST_DIGITS
