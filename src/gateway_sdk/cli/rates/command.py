"""The signature of `gateway rates`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from gateway_sdk.cli.extras import require
from gateway_sdk.cli.input.currencies import split_codes
from gateway_sdk.cli.input.days import EndDay, StartDay, choose_range
from gateway_sdk.cli.output.options import AsCsv, AsJson, choose_form

USUAL_DAYS: Final = 30
"""How far back a series goes if nobody says: a month fits a terminal."""


def rates(
    ctx: typer.Context,
    base: Annotated[str, typer.Argument(help="The currency that the rates are for one unit of.")],
    symbols: Annotated[
        list[str], typer.Argument(help="The other currencies, such as USD,GBP or USD GBP.")
    ],
    *,
    start: StartDay = None,
    end: EndDay = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw a curve of each currency in the terminal.")
    ] = False,
    png: Annotated[
        Path | None,
        typer.Option(help="Draw a chart into this file. Needs the extra [plot]."),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(help="Write a Parquet file, decimals exact. Needs the extra [parquet]."),
    ] = None,
) -> None:
    """Fetch the exchange rates of currencies against another, day by day.

    Without --start it is the last 30 days. Days without any rate, such as Sundays, have no row.
    """
    form = choose_form(as_json=as_json, as_csv=as_csv, plot=plot)
    first, last = choose_range(start, end, days=USUAL_DAYS)
    for file, module in ((png, "matplotlib"), (parquet, "pyarrow")):
        if file is not None:
            require(module)
    # Imported here, because only those who ask need it.
    from gateway_sdk.cli.rates.fetch import Output, Query, fetch  # noqa: PLC0415

    fetch(
        ctx, Query(base, split_codes(symbols), first, last), Output(form, png=png, parquet=parquet)
    )
