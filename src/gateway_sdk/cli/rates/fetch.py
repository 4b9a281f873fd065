"""Fetching a series and putting it out, in every form that was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

import typer

from gateway_sdk.cli.failure import FAILED, UNCHANGED, CommandError
from gateway_sdk.cli.output.files import check_place, write_file
from gateway_sdk.cli.output.options import Form
from gateway_sdk.cli.output.printable import printable
from gateway_sdk.cli.output.show import show, show_json
from gateway_sdk.cli.output.stdout import say, write_text
from gateway_sdk.cli.rates.curves import draw_curves
from gateway_sdk.cli.rates.series import Series, read_series
from gateway_sdk.cli.reach import ask
from gateway_sdk.session import GatewaySession

OTHER_SHAPE: Final = (
    "The reply has another shape than days with rates, so it is shown as it came: the interface"
    " leaves it open."
)


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for."""

    base: str
    symbols: Sequence[str]
    first_day: date
    last_day: date


@dataclass(frozen=True, slots=True)
class Output:
    """In which forms it is put out.

    Attributes:
        form: What standard output gets; nothing, if it is a table and there is a file.
        png: The file for a chart.
        parquet: The file for a table of columns.
    """

    form: Form
    png: Path | None = None
    parquet: Path | None = None

    @property
    def files(self) -> list[Path]:
        """The files that are asked for."""
        return [path for path in (self.png, self.parquet) if path is not None]

    @property
    def needs_series(self) -> bool:
        """Whether it is of use for a series only, and not for any reply."""
        return bool(self.files) or self.form in (Form.CSV, Form.PLOT)


def fetch(ctx: typer.Context, query: Query, output: Output) -> None:
    """Fetch a series, and put it out.

    Raises:
        CommandError: a file cannot be written, or the reply does not serve what was asked for.
        GatewayError: the series did not come.
    """
    for path in output.files:
        check_place(path)

    async def asking(gateway: GatewaySession) -> Any:
        return await gateway.currency.exchange_rate_series(
            query.base, query.symbols, query.first_day, query.last_day
        )

    reply = ask(ctx, asking)
    series = read_series(reply, query.base, query.symbols)
    if series is not None:
        _put_out(series, reply, query, output)
    elif output.needs_series:
        raise CommandError(
            "the reply has another shape than days with rates\n--json shows it as it came.",
            UNCHANGED,
        )
    else:
        show_json(reply)
        if output.form is not Form.JSON:
            say(OTHER_SHAPE)


def _put_out(series: Series, reply: Any, query: Query, output: Output) -> None:
    if not series.rates:
        say(f"There are no rates from {query.first_day} to {query.last_day}.")
    if output.form is Form.PLOT:
        _check_drawable(series)
        write_text(draw_curves(series))
    elif output.form is not Form.TABLE or not output.files:
        show(series.table(), reply, output.form)
    if output.parquet is not None:
        # Imported here, because it needs the extra [parquet].
        from gateway_sdk.cli.output.as_parquet import to_parquet  # noqa: PLC0415

        _write(output.parquet, to_parquet(series.columns()), series)
    if output.png is not None:
        _check_drawable(series)
        # Imported here, because it needs the extra [plot], and takes a second or two.
        from gateway_sdk.cli.rates.picture import draw_picture  # noqa: PLC0415

        _write(output.png, draw_picture(series), series)


def _check_drawable(series: Series) -> None:
    if not series.rates:
        raise CommandError("there is nothing to draw: choose other days", FAILED)


def _write(path: Path, data: bytes, series: Series) -> None:
    write_file(path, data)
    currencies = "1 currency" if len(series.symbols) == 1 else f"{len(series.symbols)} currencies"
    say(f"{printable(str(path))}: {len(series.days)} days, {currencies}")
