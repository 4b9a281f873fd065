"""The command `gateway bulk rates`: many series, into a journal that a later run goes on with."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

from gateway_sdk.bulk import BulkResult, currencies_of
from gateway_sdk.cli.advice import explain
from gateway_sdk.cli.arguments import (
    EndDay,
    choose_range,
    parse_concurrency,
    parse_day,
    parse_seconds,
    parse_span,
    parse_symbols,
    split_codes,
)
from gateway_sdk.cli.failure import FAILED, MISUSED, CommandError
from gateway_sdk.cli.output.console import progress
from gateway_sdk.cli.output.files import check_place
from gateway_sdk.cli.output.stdout import say
from gateway_sdk.cli.output.values import printable
from gateway_sdk.cli.series import Rows, to_journal, writing_rows
from gateway_sdk.cli.session import ask
from gateway_sdk.cli.tally import Pace, Tally
from gateway_sdk.errors import (
    AuthError,
    ConnectionFailedError,
    ForbiddenError,
    GatewayError,
    JournalError,
    RedirectError,
    UnauthorizedError,
)
from gateway_sdk.models import ExchangeRateSeriesRequest as Query
from gateway_sdk.session import GatewaySession

HOPELESS: Final = (AuthError, UnauthorizedError)
"""What happens to one call happens to all that follow."""

HOPELESS_AT_FIRST: Final = (ConnectionFailedError, ForbiddenError, RedirectError)
"""Likewise, as long as nothing has come: then it is about the gateway, and not about a series."""

NOTHING: Final = "there is nothing to fetch: the gateway has no rates of other currencies"
THEN: Final = "The rest was left out: then give the same command again, with --retry-failed."


def rates(
    ctx: typer.Context,
    *,
    base: Annotated[str, typer.Option()],
    symbols: Annotated[str, typer.Option()],
    start: Annotated[date, typer.Option(parser=parse_day)],
    end: EndDay = None,
    out: Annotated[Path, typer.Option()],
    rows: Path | None = None,
    split: Annotated[int | None, typer.Option(parser=parse_span)] = None,
    concurrency: str = "adaptive",
    retry_failed: bool = False,
    repair: bool = False,
    deadline: Annotated[float | None, typer.Option(parser=parse_seconds)] = None,
) -> None:
    """Fetch the exchange rates of many currencies, into a file of JSON lines.

    Each reply is in the file as soon as it is there. Whatever ends a run, the same command goes
    on where it stopped and fetches only what the file lacks. A start such as 1y is another day
    tomorrow: write days of the calendar where a job may take longer.

    Args:
        base (CODES): The currencies that rates are for one unit of, such as EUR or EUR,USD.
        symbols (CODES): The others, such as USD,GBP; "all" are those of all countries that the
            gateway has rates of.
        start (DAY): The first day: 2026-01-31, today, yesterday, or so long ago: 10d, 6w, 3m, 1y.
        out (FILE): The file of JSON lines that replies go to, and that a run goes on with.
        rows (FILE): Also write all rates into this CSV file: base, symbol, date, rate.
        split (SPAN): Ask for so many days at a time: 30d, 6w.
        concurrency (CALLS): Calls at once; "adaptive" finds out how many the gateway takes.
        retry_failed: Fetch again what failed in an earlier run.
        repair: Go on without lines of the file that are damaged, and keep them beside.
        deadline (SECONDS): For the whole run.

    Examples:
        gateway bulk rates --base EUR --symbols USD,GBP --start 1m --out rates.jsonl
        gateway bulk rates --base EUR --symbols USD --start 1y --split 9w --out usd
        gateway bulk rates --base EUR --symbols all --start 1w --out all.jsonl
    """
    calls, codes = parse_concurrency(concurrency), parse_symbols(symbols)
    first, last = choose_range(start, end, days=0)
    plan = Plan(split_codes([base]), codes, first, last, split)
    if codes is not None and not plan.size(codes):
        raise typer.BadParameter("there is nothing to fetch but a currency in itself")
    options = Options(
        out=out,
        rows=rows,
        concurrency=calls,
        retry_failed=retry_failed,
        repair=repair,
        deadline=deadline,
    )
    _fetch(ctx, plan, options)


@dataclass(frozen=True, slots=True)
class Plan:
    """Which series are fetched: of each pair of a base and a symbol, over each part of the days.

    Attributes:
        bases: The currencies that rates are for one unit of.
        symbols: The others; None for those of all countries.
        first_day: The first day.
        last_day: The last day.
        days: The days of one request, the last of which may have fewer; None for all in one.
    """

    bases: Sequence[str]
    symbols: Sequence[str] | None
    first_day: date
    last_day: date
    days: int | None

    def size(self, symbols: Sequence[str]) -> int:
        """Count the requests for these symbols."""
        return len(self._pairs(symbols)) * len(self._parts())

    def queries(self, symbols: Sequence[str]) -> Iterator[Query]:
        """Make the requests: one currency each, so that a failure is that of one.

        In the order of bases, symbols and days. For all countries days come before currencies, so
        that those which the gateway does not know are known before the second part. No currency
        is asked for in itself.
        """
        parts, pairs = self._parts(), self._pairs(symbols)
        order = [(pair, part) for pair in pairs for part in parts]
        if self.symbols is None:
            order = [(pair, part) for part in parts for pair in pairs]
        for (base, symbol), part in order:
            yield part.model_copy(update={"base": base, "symbols": symbol})

    def _pairs(self, symbols: Sequence[str]) -> list[tuple[str, str]]:
        return [(base, symbol) for base in self.bases for symbol in symbols if symbol != base]

    def _parts(self) -> list[Query]:
        """Cut the days into requests that lack their currencies."""
        whole = Query(
            base="",
            symbols="",
            start_date=self.first_day.isoformat(),
            end_date=self.last_day.isoformat(),
        )
        return [whole] if self.days is None else whole.split(days=self.days)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How series are fetched, and where they go.

    Attributes:
        out: The journal.
        rows: A CSV file for the rates; None for none.
        concurrency: Calls at once.
        retry_failed: Whether what failed earlier is fetched again.
        repair: Whether damaged lines are put aside.
        deadline: Seconds for the whole run.
    """

    out: Path
    rows: Path | None
    concurrency: int | Literal["adaptive"]
    retry_failed: bool
    repair: bool
    deadline: float | None

    def check(self) -> None:
        """Make sure that the files can be where they are to be."""
        for path in filter(None, (self.out, self.rows)):
            check_place(path)
        if self.rows is not None and self.rows.resolve() == self.out.resolve():
            raise CommandError("--out and --rows are the same file: give two", MISUSED)


def _fetch(ctx: typer.Context, plan: Plan, options: Options) -> None:
    """Fetch what the journal lacks, and say what came of it.

    Raises:
        KeyboardInterrupt: Ctrl-C; its text says how to go on.
    """
    options.check()
    tally = Tally(options.deadline, leaves_out=plan.symbols is None)
    if plan.symbols is not None:
        tally.total = plan.size(plan.symbols)
    # The address of a sandbox is another one each time.
    job = "exchange rates of the sandbox" if ctx.find_root().params["sandbox"] else None
    bar = (TextColumn("Fetching"), BarColumn(bar_width=None), MofNCompleteColumn(), Pace(tally))
    try:
        with progress(*bar) as show:

            def report() -> None:
                if show is not None:
                    show(tally.done, tally.total)

            rows = ask(
                ctx,
                lambda gateway: _Run(gateway, plan, options, tally, report).fetch(job),
                tells_waits=False,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_how_to_go_on(options, tally)) from None
    except JournalError as error:
        status = FAILED if tally.opened else MISUSED
        words = printable(str(error)).replace("repair=True", "--repair")
        raise CommandError(words, status) from error
    except GatewayError as error:
        if not tally.asked:
            raise
        failure = explain(error)
        raise CommandError(f"{failure}\n{THEN}", failure.status) from error
    _tell(options, tally, rows)


def _how_to_go_on(options: Options, tally: Tally) -> str:
    if tally.total is None:
        return "Nothing was fetched."
    there = f"{printable(str(options.out))} has {tally.so_far()}"
    return f"{there}: the same command goes on from there."


def _tell(options: Options, tally: Tally, rows: Rows | None) -> None:
    """Say what came, and what did not."""
    if tally.total is not None:
        say(f"{printable(str(options.out))}: {tally.summary()}")
    if tally.left_out:
        codes = sorted({symbol for _, symbol in tally.left_out})
        say(f"Left out, because the gateway has no rates of them: {printable(' '.join(codes))}")
    if rows is not None:
        rates = "1 rate" if rows.written == 1 else f"{rows.written} rates"
        say(f"{printable(str(options.rows))}: {rates}")
        if rows.other_shapes:
            say(f"Replies of another shape than days with rates, left out: {rows.other_shapes}")
    if complaint := tally.complaint():
        raise complaint
    if not tally.total:
        raise CommandError(NOTHING, FAILED)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run with an open session."""

    gateway: GatewaySession
    plan: Plan
    options: Options
    tally: Tally
    show: Callable[[], None]

    async def fetch(self, job: str | None) -> Rows | None:
        """Fetch all, and count it; return what the rows were written with, if any."""
        results = self.gateway.currency.exchange_rate_series_bulk(
            self._queries(),
            concurrency=self.options.concurrency,
            # So that rows stand in the order of the requests.
            ordered=self.options.rows is not None,
            deadline=self.options.deadline,
            journal=self.options.out,
            job=job,
            retry_failed=self.options.retry_failed,
            repair=self.options.repair,
            dump=to_journal,
        )
        with writing_rows(self.options.rows) as rows:
            async with aclosing(results):
                async for result in results:
                    self._take(result)
                    if rows is not None:
                        rows.add(result)
        return rows

    async def _queries(self) -> AsyncGenerator[Query]:
        """Make the requests; begun only when the journal is open."""
        self.tally.opened = True
        symbols = self.plan.symbols
        if symbols is None:
            symbols = currencies_of(await self.gateway.country_data.list_countries())
        self.tally.total = self.plan.size(symbols)
        self.show()
        for query in self.plan.queries(symbols):
            if (query.base, query.symbols) in self.tally.left_out:
                self.tally.skip()
            else:
                yield query

    def _take(self, result: BulkResult[Query, Any]) -> None:
        self.tally.add(result)
        self.show()
        error = result.error
        if error is None or result.from_journal:
            return
        if not isinstance(error, GatewayError):
            raise error  # a bug, and not a series that failed
        if isinstance(error, HOPELESS) or (
            isinstance(error, HOPELESS_AT_FIRST) and not self.tally.fetched
        ):
            raise error
