"""The signature of `gateway countries`."""

from typing import Annotated

import typer

from gateway_sdk.cli.output.options import AsCsv, AsJson, choose_form


def countries(
    ctx: typer.Context,
    search: Annotated[
        str | None,
        typer.Argument(
            help="Part of a name or nationality; or a whole code, currency or dialling code."
            " All countries, if left out."
        ),
    ] = None,
    *,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the countries of the world, with their codes and currencies.

    The exit status is 1 if none matches.
    """
    form = choose_form(as_json=as_json, as_csv=as_csv)
    # Imported here, because only those who ask need it.
    from gateway_sdk.cli.countries.find import find  # noqa: PLC0415

    find(ctx, search, form)
