"""The command `gateway rates`."""

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gateway_sdk.cli.arguments import (
    START,
    AsCsv,
    AsJson,
    End,
    argument,
    choose_range,
    complete_codes,
    examples,
    option,
    split_codes,
    switch,
)
from gateway_sdk.cli.files import check_place, to_parquet, write_file
from gateway_sdk.cli.output import Form, choose_form, show, show_json
from gateway_sdk.cli.process import CommandError, Status, printable, require, say, write_out
from gateway_sdk.cli.series import Series, draw_curves, read_series
from gateway_sdk.cli.session import ask

app = typer.Typer(rich_markup_mode=None)

OTHER_SHAPE: Final = "the reply has another shape than days with rates"


@app.command(
    epilog=examples(
        "gateway rates EUR USD --sandbox --start 2026-10-01",
        "gateway rates EUR USD,GBP --start 1m --end yesterday --csv > rates.csv",
        "gateway rates EUR USD JPY --start 2026-01-01 --end 2026-10-30 --plot",
        "gateway rates EUR USD --start 2026-01-01 --png usd.png --parquet usd.parquet",
    )
)
def rates(
    ctx: typer.Context,
    base: Annotated[str, argument("BASE", "The base currency.", autocompletion=complete_codes)],
    symbols: Annotated[
        list[str],
        argument("SYMBOLS", "The others: USD,GBP or USD GBP.", autocompletion=complete_codes),
    ],
    *,
    start: Annotated[date | None, START] = None,
    end: End = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    plot: Annotated[bool, switch("--plot", "Draw curves in the terminal.")] = False,
    png: Annotated[Path | None, option("FILE.png", "Draw a chart. Needs the extra [plot].")] = None,
    parquet: Annotated[
        Path | None, option("FILE", "Write a Parquet file. Needs the extra [parquet].")
    ] = None,
) -> None:
    """Fetch the exchange rates of currencies against another, day by day.

    The default is the last 30 days. Days without rates, such as Sundays, have no row.
    """
    form = choose_form(as_json=as_json, as_csv=as_csv, plot=plot)
    first, last = choose_range(start, end, days=30)
    [base, *others], codes = split_codes([base]), split_codes(symbols)
    if others:
        raise typer.BadParameter("give one base currency; `gateway bulk rates` takes several")
    if png and png.suffix.lower() != ".png":
        problem = f"{str(png)!r} does not end in .png: write a name such as rates.png"
        raise typer.BadParameter(problem, param_hint="'--png'")
    for file, module in ((png, "matplotlib"), (parquet, "pyarrow")):
        if file is not None:
            require(module)
            check_place(file)
    reply = ask(ctx, lambda it: it.currency.exchange_rate_series(base, codes, first, last))
    series = read_series(reply, base, codes)
    if series is None:
        _show_other_shape(reply, form, needs_series=bool(png or parquet))
        return
    if not series.days:
        say(f"There are no rates from {first} to {last}: try an earlier day for --start.")
        if form == "plot" or png:
            raise CommandError("there is nothing to draw: choose other days", Status.FAILED)
    if form == "plot":
        write_out(draw_curves(series))
    elif form != "table" or not (png or parquet):
        show(series.table(), reply, form)
    _write_files(series, png, parquet)


def _show_other_shape(reply: Any, form: Form, *, needs_series: bool) -> None:
    if needs_series or form in ("csv", "plot"):
        raise CommandError(f"{OTHER_SHAPE}\n--json shows it.", Status.UNCHANGED)
    show_json(reply)
    if form != "json":
        say(f"{OTHER_SHAPE}, so it is shown as JSON: the interface leaves it open.")


def _write_files(series: Series, png: Path | None, parquet: Path | None) -> None:
    count = len(series.rates)
    told = f"{len(series.days)} days, {'1 currency' if count == 1 else f'{count} currencies'}"
    if parquet is not None:
        write_file(parquet, to_parquet(series.columns()))
        say(f"{printable(str(parquet))}: {told}")
    if png is not None:
        # Imported here, because it needs the extra [plot], and takes a second or two.
        from gateway_sdk.cli.chart import draw_chart  # noqa: PLC0415

        write_file(png, draw_chart(series))
        say(f"{printable(str(png))}: {told}")
