"""Real data: the reference rates of the European Central Bank, and the countries of the world.

The first use loads the data and blocks for 0.1 s: call `reference_rates` and `country_list` in a
worker thread.
"""

import csv
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from datetime import date
from functools import cache
from io import TextIOWrapper
from typing import NamedTuple
from zipfile import ZipFile

from babel import Locale
from babel.numbers import get_territory_currencies
from countryinfo import CountryInfo, all_countries
from currency_converter import CURRENCY_FILE  # type: ignore[import-untyped]

# The ECB publishes at most seven digits (20275.17 rupiahs), so a cross rate has no more either.
SIGNIFICANT_DIGITS = 7

Series = dict[str, dict[str, float]]


@dataclass(frozen=True)
class ReferenceRates:
    days: list[date]  # ascending
    quotes: list[dict[str, float]]  # of each day: units per euro, by currency
    currencies: set[str]  # of all days

    def series(self, base: str, symbols: list[str], start: date, end: date) -> Series:
        """Rates per one *base* by ISO date, ascending, *end* included; no day without a quote."""
        series: Series = {}
        for n in range(bisect_left(self.days, start), bisect_right(self.days, end)):
            quotes = self.quotes[n]
            rates = {
                code: float(f"{quotes[code] / quotes[base]:.{SIGNIFICANT_DIGITS}g}")
                for code in symbols
                if code in quotes and base in quotes
            }
            if rates:
                series[self.days[n].isoformat()] = rates
        return series


@cache
def reference_rates() -> ReferenceRates:
    """Read the rates, once per process."""
    with ZipFile(CURRENCY_FILE) as archive, archive.open(archive.namelist()[0]) as file:
        newest_first = list(csv.DictReader(TextIOWrapper(file, "utf-8")))
    rows = newest_first[::-1]
    days = [date.fromisoformat(row.pop("Date")) for row in rows]
    # The last column has neither a name nor values.
    quotes = [
        {"EUR": 1.0} | {code: float(rate) for code, rate in row.items() if rate not in ("", "N/A")}
        for row in rows
    ]
    return ReferenceRates(days, quotes, set().union(*quotes))


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
    digits = "".join(filter(str.isdigit, "".join(known.get("callingCodes", [])[:1])))
    return {
        "countryName": names[alpha2],
        "nationality": known.get("demonym", ""),
        "three_digit_iso_code": known["ISO"]["alpha3"],
        "two_digit_iso_code": alpha2,
        "currency": _legal_tender(alpha2, known.get("currencies", [])),
        "phone_code": f"+{digits}" if digits else "",
    }


def _legal_tender(alpha2: str, listed: list[str]) -> str:
    """Choose one of the current legal tenders: countryinfo lists a country's own first."""
    # CLDR lists the oldest first: for Bhutan that is the Indian rupee.
    current = get_territory_currencies(alpha2)
    return next((code for code in listed[:1] + current if code in current), "")
