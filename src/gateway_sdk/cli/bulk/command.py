"""The signature of `gateway bulk rates`."""

from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from gateway_sdk.cli.bulk.options import (
    parse_concurrency,
    parse_seconds,
    parse_span,
    parse_symbols,
)
from gateway_sdk.cli.input.currencies import split_codes
from gateway_sdk.cli.input.days import FORMATS, choose_range, parse_day


def rates(
    ctx: typer.Context,
    *,
    base: Annotated[
        str,
        typer.Option(help="The currencies that rates are for one unit of, such as EUR or EUR,USD."),
    ],
    symbols: Annotated[
        str,
        typer.Option(help='The others, such as USD,GBP; "all" are those of all countries.'),
    ],
    start: Annotated[
        date,
        typer.Option(parser=parse_day, metavar="DAY", help=f"The first day: {FORMATS}."),
    ],
    end: Annotated[
        date | None,
        typer.Option(
            parser=parse_day,
            metavar="DAY",
            help="The last day, likewise; today, if it is left out.",
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            help="The file of JSON lines that replies go to, and that a run goes on with."
        ),
    ],
    rows: Annotated[
        Path | None,
        typer.Option(help="Also write all rates into this CSV file: base, symbol, date, rate."),
    ] = None,
    split: Annotated[
        int | None,
        typer.Option(
            parser=parse_span, metavar="SPAN", help="Ask for so many days at a time: 30d, 6w."
        ),
    ] = None,
    concurrency: Annotated[
        str,
        typer.Option(help='Calls at once; "adaptive" finds out how many the gateway takes.'),
    ] = "adaptive",
    retry_failed: Annotated[
        bool,
        typer.Option("--retry-failed", help="Fetch again what failed in an earlier run."),
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Go on without lines of the file that are damaged, and keep them beside.",
        ),
    ] = False,
    deadline: Annotated[
        float | None,
        typer.Option(parser=parse_seconds, metavar="SECONDS", help="For the whole run."),
    ] = None,
) -> None:
    """Fetch the exchange rates of many currencies, into a file of JSON lines.

    Each reply is in the file as soon as it is there. Whatever ends a run, the same command goes
    on where it stopped and fetches only what the file lacks; days such as 1y are others tomorrow.
    """
    calls, codes = parse_concurrency(concurrency), parse_symbols(symbols)
    first, last = choose_range(start, end, days=0)
    # Imported here, because only those who fetch need it.
    from gateway_sdk.cli.bulk.fetch import Way, fetch  # noqa: PLC0415
    from gateway_sdk.cli.bulk.plan import Plan  # noqa: PLC0415

    plan = Plan(split_codes([base]), codes, first, last, split)
    if codes is not None and not plan.size(codes):
        raise typer.BadParameter("there is nothing to fetch but a currency in itself")
    way = Way(
        out=out,
        rows=rows,
        concurrency=calls,
        retry_failed=retry_failed,
        repair=repair,
        deadline=deadline,
    )
    fetch(ctx, plan, way)
