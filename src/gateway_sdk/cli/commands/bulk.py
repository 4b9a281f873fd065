"""The command `gateway bulk rates`, and by import those of a fleet."""

from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway_sdk.cli.arguments import (
    DAY,
    choose_range,
    parse_concurrency,
    parse_span,
    parse_symbols,
    split_codes,
)
from gateway_sdk.cli.commands.fleet import collect, plan, status, submit, unknown, worker
from gateway_sdk.cli.files import check_place
from gateway_sdk.cli.job import Plan, Tally, fetch
from gateway_sdk.cli.process import FAILED, MISUSED, CommandError, printable, say
from gateway_sdk.cli.series import Rows, shortest, writing_rows
from gateway_sdk.cli.session import ask, explain
from gateway_sdk.errors import GatewayError, JournalError
from gateway_sdk.session import GatewaySession

__all__ = ["collect", "plan", "rates", "status", "submit", "unknown", "worker"]


def rates(
    ctx: typer.Context,
    *,
    base: Annotated[str, typer.Option()],
    symbols: Annotated[str, typer.Option()],
    start: Annotated[date, DAY],
    end: Annotated[date | None, DAY] = None,
    out: Annotated[Path, typer.Option()],
    rows: Path | None = None,
    split: Annotated[int | None, typer.Option(parser=parse_span)] = None,
    concurrency: str = "adaptive",
    retry_failed: bool = False,
    repair: bool = False,
    deadline: Annotated[float | None, typer.Option(min=0.001)] = None,
) -> None:
    """Fetch the exchange rates of many currencies into a file of JSON lines.

    Each reply is written when it arrives. Whatever ends a run, the same command continues it and
    fetches only what the file lacks. A start such as 1y counts back from today: write a date if you
    may continue the run on another day.

    Args:
        base (CODES): The base currencies, such as EUR or EUR,USD.
        symbols (CODES): The other currencies, such as USD,GBP; "all" stands for the currencies of
            all countries of which the gateway has rates.
        out (FILE): The file of JSON lines, which a later run continues.
        rows (FILE): Also write all rates into this CSV file: base, symbol, date, rate.
        split (SPAN): The days of one request, such as 30d or 6w.
        concurrency (CALLS): Calls at a time; "adaptive" finds out how many the gateway accepts.
        retry_failed: Fetch again what failed in an earlier run.
        repair: Move damaged lines of the file to NAME.damaged, and fetch their series again.
        deadline (SECONDS): Seconds for the whole run.

    Examples:
        gateway bulk rates --base EUR --symbols USD,GBP --start 1m --out rates.jsonl
        gateway bulk rates --base EUR --symbols USD --start 1y --split 9w --out usd
        gateway bulk rates --base EUR --symbols all --start 1w --out all.jsonl
    """
    calls, codes = parse_concurrency(concurrency), parse_symbols(symbols)
    first, last = choose_range(start, end, days=0)
    plan = Plan(split_codes([base]), codes, first, last, split)
    tally = Tally(deadline, leaves_out=codes is None)
    if codes is not None:
        tally.total, _ = plan.queries(codes)
        if not tally.total:
            raise typer.BadParameter("there is nothing to fetch: give other --symbols than --base")
    for path in filter(None, (out, rows)):
        check_place(path)
    if rows is not None and rows.resolve() == out.resolve():
        raise CommandError("--out and --rows are the same file", MISUSED)
    options = {"journal": out, "concurrency": calls, "deadline": deadline, "repair": repair}
    written = _fetch(ctx, plan, tally, rows, {**options, "retry_failed": retry_failed})
    _tell(tally, printable(str(out)), written, printable(str(rows)))


def _fetch(
    ctx: typer.Context, plan: Plan, tally: Tally, rows: Path | None, options: dict[str, Any]
) -> Rows | None:
    """Fetch what the journal lacks.

    Raises:
        KeyboardInterrupt: Ctrl-C; its text says how to continue.
    """
    # The journal is for one gateway, and each sandbox has another address.
    job = "exchange rates of the sandbox" if ctx.find_root().params["sandbox"] else None

    async def fetching(gateway: GatewaySession) -> Rows | None:
        with writing_rows(rows) as written:
            # Ordered, so that rows are in the order of the requests.
            more: dict[str, Any] = {"take": written.add, "ordered": True} if written else {}
            await fetch(gateway, plan, tally, job=job, **options, **more)
        return written

    try:
        return ask(ctx, fetching, tells_waits=False, parse_float=shortest)
    except KeyboardInterrupt:
        there = f"{printable(str(options['journal']))} has {tally.so_far()}"
        told = f"{there}: the same command continues." if tally.total else "Nothing was fetched."
        raise KeyboardInterrupt(told) from None
    except JournalError as error:
        words = printable(str(error)).replace("repair=True", "--repair")
        raise CommandError(words, FAILED if tally.opened else MISUSED) from error
    except GatewayError as error:
        if not tally.asked:
            raise
        failure = explain(error)
        then = "The run was ended. Then give the same command again, with --retry-failed."
        raise CommandError(f"{failure}\n{then}", failure.status) from error


def _tell(tally: Tally, out: str, rows: Rows | None, rows_path: str) -> None:
    """Say what was fetched, and what was not."""
    if tally.total is not None:
        say(f"{out}: {tally.summary()}")
    if tally.left_out:
        codes = sorted({symbol for _, symbol in tally.left_out})
        say(f"Left out, because the gateway has no rates of them: {printable(' '.join(codes))}")
    if rows is not None:
        say(f"{rows_path}: {'1 rate' if rows.written == 1 else f'{rows.written} rates'}")
        if rows.other_shapes:
            say(f"Replies of another shape than days with rates, left out: {rows.other_shapes}")
    if complaint := tally.complaint():
        raise complaint
    if not tally.total:
        raise CommandError(
            "there is nothing to fetch: the gateway has no rates of other currencies", FAILED
        )
