"""The command `gateway rates`."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gateway_sdk.cli.arguments import EndDay, StartDay, choose_range, parse_png, split_codes
from gateway_sdk.cli.extras import require
from gateway_sdk.cli.failure import FAILED, UNCHANGED, CommandError
from gateway_sdk.cli.output.curves import draw_curves
from gateway_sdk.cli.output.files import check_place, to_parquet, write_file
from gateway_sdk.cli.output.show import AsCsv, AsJson, Form, choose_form, show, show_json
from gateway_sdk.cli.output.stdout import say, write_text
from gateway_sdk.cli.output.values import printable
from gateway_sdk.cli.series import Series, read_series
from gateway_sdk.cli.session import ask

USUAL_DAYS: Final = 30
"""How far back a series goes by default: a month fits a terminal."""

OTHER_SHAPE: Final = (
    "The reply has another shape than days with rates, so it is shown as it came: the interface"
    " leaves it open."
)


def rates(
    ctx: typer.Context,
    base: Annotated[
        str, typer.Argument(metavar="BASE", help="The currency that the rates are for one unit of.")
    ],
    symbols: Annotated[
        list[str],
        typer.Argument(metavar="SYMBOLS", help="The other currencies, such as USD,GBP or USD GBP."),
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
        typer.Option(
            parser=parse_png,
            metavar="FILE.png",
            help="Draw a chart into this file. Needs the extra [plot].",
        ),
    ] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a Parquet file, decimals exact. Needs the extra [parquet]."
        ),
    ] = None,
) -> None:
    """Fetch the exchange rates of currencies against another, day by day.

    Without --start it is the last 30 days. Days without any rate, such as Sundays, have no row.
    """
    form = choose_form(as_json=as_json, as_csv=as_csv, plot=plot)
    first, last = choose_range(start, end, days=USUAL_DAYS)
    [base], codes = split_codes([base]), split_codes(symbols)
    for file, module in ((png, "matplotlib"), (parquet, "pyarrow")):
        if file is not None:
            require(module)
            check_place(file)

    async def fetch(gateway: Any) -> Any:
        return await gateway.currency.exchange_rate_series(base, codes, first, last)

    reply = ask(ctx, fetch)
    series = read_series(reply, base, codes)
    if series is None:
        _show_other_shape(reply, form, needs_series=bool(png or parquet))
        return
    if not series.rates:
        say(f"There are no rates from {first} to {last}.")
    _show(series, reply, form, has_files=bool(png or parquet))
    if parquet is not None:
        _write(parquet, to_parquet(series.columns()), series)
    if png is not None:
        _check_drawable(series)
        # Imported here, because it needs the extra [plot], and takes a second or two.
        from gateway_sdk.cli.output.chart import draw_chart  # noqa: PLC0415

        _write(png, draw_chart(series), series)


def _show_other_shape(reply: Any, form: Form, *, needs_series: bool) -> None:
    if needs_series or form in (Form.CSV, Form.PLOT):
        raise CommandError(
            "the reply has another shape than days with rates\n--json shows it as it came.",
            UNCHANGED,
        )
    show_json(reply)
    if form is not Form.JSON:
        say(OTHER_SHAPE)


def _show(series: Series, reply: Any, form: Form, *, has_files: bool) -> None:
    """Print the series; files stand in place of a table."""
    if form is Form.PLOT:
        _check_drawable(series)
        write_text(draw_curves(series))
    elif form is not Form.TABLE or not has_files:
        show(series.table(), reply, form)


def _check_drawable(series: Series) -> None:
    if not series.rates:
        raise CommandError("there is nothing to draw: choose other days", FAILED)


def _write(path: Path, data: bytes, series: Series) -> None:
    write_file(path, data)
    currencies = "1 currency" if len(series.symbols) == 1 else f"{len(series.symbols)} currencies"
    say(f"{printable(str(path))}: {len(series.days)} days, {currencies}")
