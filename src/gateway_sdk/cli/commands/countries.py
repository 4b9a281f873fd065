"""The command `gateway countries`."""

import unicodedata
from typing import Final

import typer

from gateway_sdk.cli.arguments import AsCsv, AsJson, MayBeLeftOut
from gateway_sdk.cli.failure import FAILED, CommandError
from gateway_sdk.cli.output.show import Form, choose_form, show
from gateway_sdk.cli.output.table import Table
from gateway_sdk.cli.output.values import printable
from gateway_sdk.cli.session import ask
from gateway_sdk.models import Country

# Interface: Country record. The names first, for they are what a table is read by.
COLUMNS: Final = {
    "countryName": "Country",
    "two_digit_iso_code": "2",
    "three_digit_iso_code": "3",
    "currency": "Cur",
    "phone_code": "Phone",
    "nationality": "Nationality",
    "id": "Id",
}
"""And what they are called in a terminal, where there is less room."""

NAMES: Final = {"euro": "eur"}
"""A currency that is called otherwise than its code, and by its name in no other column."""


def countries(
    ctx: typer.Context,
    search: MayBeLeftOut = None,
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the countries of the world, with their codes and currencies.

    The exit status is 1 if none matches; then --csv has its header alone, and --json is [].

    Args:
        search (SEARCH): Part of a name or nationality; or a whole code, currency or dialling code.
            All countries, if left out.

    Examples:
        gateway countries
        gateway countries austria --sandbox
        gateway countries EUR --csv > euro.csv
        gateway countries --json | jq '.[].countryName'
    """
    form = choose_form(as_json=as_json, as_csv=as_csv)
    known = ask(ctx, lambda gateway: gateway.country_data.list_countries())
    found = [country for country in known if search is None or matches(country, search)]
    records = [country.to_wire() for country in found]
    rows = [[record[name] for name in COLUMNS] for record in records]
    if found or form is not Form.TABLE:
        show(Table(list(COLUMNS), rows), records, form, headings=list(COLUMNS.values()))
    if search is not None and not found:
        raise CommandError(
            f"none of the {len(known)} countries matches “{printable(search)}”\n"
            "`gateway countries` lists them all.",
            FAILED,
        )


def matches(country: Country, search: str) -> bool:
    """Tell whether a search is part of a name, or one of the codes; case and accents do not count.

    A code has to be whole: two letters of it are in many a name.
    """
    wanted = NAMES.get(_plain(search), _plain(search))
    names = (country.country_name, country.nationality)
    codes = {country.two_digit_iso_code, country.three_digit_iso_code, country.currency}
    codes |= {country.phone_code, country.phone_code.lstrip("+")}
    return any(wanted in _plain(name) for name in names) or wanted in map(_plain, codes)


def _plain(text: str) -> str:
    parts = unicodedata.normalize("NFKD", text.strip())
    return "".join(part for part in parts if not unicodedata.combining(part)).casefold()
