"""The command `gateway countries`."""

import unicodedata
from typing import Annotated, Final

import typer

from gateway_sdk.cli.arguments import AsCsv, AsJson, argument, examples
from gateway_sdk.cli.output.show import Table, choose_form, show
from gateway_sdk.cli.process import CommandError, Status, printable
from gateway_sdk.cli.session import ask
from gateway_sdk.models import Country

app = typer.Typer(rich_markup_mode=None)

# Interface: Country record. The name is the first column, and the id the last.
COLUMNS: Final = {
    "countryName": "Country",
    "two_digit_iso_code": "2",
    "three_digit_iso_code": "3",
    "currency": "Cur",
    "phone_code": "Phone",
    "nationality": "Nationality",
    "id": "Id",
}
"""The columns, with their shorter names in a terminal."""

NAMES: Final = {"euro": "eur"}
"""Names of currencies that are not part of another column, with their codes."""


@app.command(
    epilog=examples(
        "gateway countries",
        "gateway countries austria --sandbox",
        "gateway countries EUR --csv > euro.csv",
        "gateway countries --json | jq '.[].countryName'",
    )
)
def countries(
    ctx: typer.Context,
    search: Annotated[
        str | None, argument("SEARCH", "Part of a name or nationality, or a whole code.")
    ] = None,
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the countries of the world, with their codes and currencies.

    The exit status is 1 if no country matches.
    """
    form = choose_form(as_json=as_json, as_csv=as_csv)
    known = ask(ctx, lambda gateway: gateway.country_data.list_countries())
    found = [country for country in known if search is None or matches(country, search)]
    records = [country.to_wire() for country in found]
    rows = [[record.get(name) for name in COLUMNS] for record in records]
    if found or form != "table":
        show(Table(list(COLUMNS), rows), records, form, headings=list(COLUMNS.values()))
    if search is not None and not found:
        raise CommandError(
            f"none of the {len(known)} countries matches “{printable(search)}”\n"
            "`gateway countries` lists them.",
            Status.FAILED,
        )


def matches(country: Country, search: str) -> bool:
    """Whether a search is part of a name or equals a code, without regard to case and accents."""
    wanted = NAMES.get(_plain(search), _plain(search))
    names = (country.country_name, country.nationality)
    codes = {country.two_digit_iso_code, country.three_digit_iso_code, country.currency}
    codes |= {country.phone_code, (country.phone_code or "").lstrip("+")}
    return any(wanted in _plain(name) for name in names) or wanted in map(_plain, codes - {None})


def _plain(text: str | None) -> str:
    parts = unicodedata.normalize("NFKD", (text or "").strip())
    return "".join(part for part in parts if not unicodedata.combining(part)).casefold()
