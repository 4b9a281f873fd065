"""The countries of the world, each with all seven fields filled.

countryinfo knows demonyms and dialling codes; names and legal tender come from CLDR through babel,
because countryinfo's are years old (Swaziland, the Zambian kwacha of before 2013).
"""

from functools import cache
from typing import NamedTuple

from babel import Locale
from babel.numbers import get_territory_currencies
from countryinfo import CountryInfo, all_countries

Country = dict[str, int | str]


class CountryList(NamedTuple):
    """The complete records by three-letter code, and the names of those that lack a field."""

    records: list[Country]
    left_out: list[str]


@cache
def country_list() -> CountryList:
    """Give the countries, read once per process.

    Both lists are shared, so do not change them. `left_out` is in alphabetical order.
    """
    names: dict[str, str] = dict(Locale("en").territories)
    # CLDR does not know Scotland, nor any more Serbia and Montenegro or the Netherlands Antilles.
    drafts = [_draft(country, names) for country in all_countries() if country.iso(2) in names]
    # Of countryinfo's two records of one country (Britain and Wales), one is complete.
    complete = {draft["three_digit_iso_code"]: draft for draft in drafts if all(draft.values())}
    listed = {draft["countryName"] for draft in complete.values()}
    return CountryList(
        records=[{"id": n, **complete[alpha3]} for n, alpha3 in enumerate(sorted(complete), 1)],
        left_out=sorted({draft["countryName"] for draft in drafts} - listed),
    )


def _draft(country: CountryInfo, names: dict[str, str]) -> dict[str, str]:
    # Interface: Resources, Country record
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


def _legal_tender(alpha2: str, familiar: list[str]) -> str:
    """Choose among the legal tenders of today: a country's own one comes first in countryinfo.

    CLDR goes by age: to it Bhutan's first is the Indian rupee.
    """
    current = get_territory_currencies(alpha2)
    return next((code for code in familiar[:1] + current if code in current), "")


def _phone_code(calling_codes: list[str]) -> str:
    digits = "".join(filter(str.isdigit, "".join(calling_codes[:1])))
    return f"+{digits}" if digits else ""
