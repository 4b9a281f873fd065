"""The command `gateway bulk rates`: its requests, the run and the count of its results.

By import also the commands of a fleet.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gateway_sdk import errors
from gateway_sdk.bulk import BulkResult, currencies_of
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
from gateway_sdk.cli.output.console import counting_bar
from gateway_sdk.cli.process import CommandError, Status, printable, say
from gateway_sdk.cli.series import Rows, shortest, writing_rows
from gateway_sdk.cli.session import ask, explain, quote
from gateway_sdk.errors import GatewayError, JournalError
from gateway_sdk.models import ExchangeRateSeriesRequest as Query
from gateway_sdk.outcome import Outcome
from gateway_sdk.session import GatewaySession

__all__ = ["collect", "plan", "rates", "status", "submit", "unknown", "worker"]

HOPELESS: Final = (errors.AuthError, errors.UnauthorizedError)
"""Errors that all further calls would have too."""

HOPELESS_AT_FIRST: Final = (
    errors.ConnectionFailedError,
    errors.ForbiddenError,
    errors.RedirectError,
)
"""Likewise as long as no series has arrived: then it is the gateway, and not one series."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The series of a run: for each pair of a base and a symbol, and each part of the days."""

    bases: Sequence[str]
    symbols: Sequence[str] | None  # None: those of all countries
    first_day: date
    last_day: date
    days: int | None = None  # of a part; None: the whole range

    def queries(self, symbols: Sequence[str]) -> tuple[int, Iterator[Query]]:
        """Count and make the requests, with one symbol each, so that each can fail by itself."""
        days = {"start_date": self.first_day.isoformat(), "end_date": self.last_day.isoformat()}
        whole = Query(base="", symbols="", **days)
        parts = [whole] if self.days is None else whole.split(days=self.days)
        pairs = [(base, symbol) for base, symbol in product(self.bases, symbols) if symbol != base]
        order: Iterable[tuple[tuple[str, str], Query]] = product(pairs, parts)
        if self.symbols is None:
            # After the first part of the days it is known which currencies the gateway lacks.
            order = ((pair, part) for part, pair in product(parts, pairs))
        return len(pairs) * len(parts), (
            part.model_copy(update={"base": base, "symbols": symbol})
            for (base, symbol), part in order
        )


class Tally:
    """Counts the results of a run; currencies that the gateway does not know may be left out."""

    def __init__(self, deadline: float | None = None, *, leaves_out: bool = False) -> None:
        self.opened = False  # the journal
        self.total: int | None = None  # until the gateway has listed its countries
        # Series without those that the deadline cut; series in the journal; those of them that this
        # run fetched; requests of this run, failed ones included.
        self.failed = self.there = self.fetched = self.asked = 0
        self.left_out: dict[tuple[str, str], str] = {}  # by base and symbol: the gateway's words
        self._leaves_out, self._deadline = leaves_out, deadline
        self._kinds: Counter[str] = Counter()
        self._such_as: dict[str, str] = {}
        self._refused = self._not_found = 0

    @property
    def done(self) -> int:
        """Series that have a result, also a failure."""
        return self.there + self.failed

    def add(self, result: BulkResult[Query, Any]) -> None:
        """Count a result; one that the deadline has cut stays missing."""
        error, from_journal = result.error, result.from_journal
        is_late = isinstance(error, errors.DeadlineExceededError) and self._deadline is not None
        self.asked += not from_journal
        if self._leaves_out and isinstance(error, errors.NotFoundError):
            self.skip()
            self.left_out[result.item.base, result.item.symbols] = quote(error)
        elif error is None:
            self.there += 1
            self.fetched += not from_journal
        elif from_journal or not is_late:
            self._add_failure(result.item, error)

    def skip(self) -> None:
        """Expect one series less."""
        self.total = (self.total or 0) - 1

    def _add_failure(self, query: Query, error: Exception) -> None:
        status = getattr(error, "status", None)
        kind = type(error).__name__ if status is None else f"{type(error).__name__} {status}"
        words = quote(error) if isinstance(error, GatewayError) else ""
        self.failed += 1
        self._kinds[kind] += 1
        self._such_as.setdefault(kind, printable(f"{query.symbols} for {query.base}") + words)
        self._refused += getattr(error, "outcome", None) is Outcome.REFUSED
        self._not_found += isinstance(error, errors.NotFoundError)

    def complaint(self) -> CommandError | None:
        """Say what is missing and how to get it; None if nothing is."""
        late = "all" if self.total is None else self.total - self.done
        lines: list[str] = []
        if late:
            lines.append(f"the deadline of {self._deadline:g} s passed: {late} series are missing")
        if self.failed:
            lines += [f"{self.failed} of {self.total} series failed", *self.failures()]
        if not lines:
            return None
        again = ", and with --retry-failed what failed" if self.failed > self._not_found else ""
        advice = f"The same command fetches what is missing{again}."
        if not (late or again):
            advice = "The gateway does not know them: are --base and --symbols spelt right?"
        status = Status.REFUSED if self._refused == self.failed and not late else Status.UNCHANGED
        return CommandError("\n".join((*lines, advice)), status)

    def failures(self) -> Iterator[str]:
        """Name the kinds of failures, the most frequent first, with an example of each."""
        for kind, count in self._kinds.most_common():
            yield f"  {count} {kind}, such as {self._such_as[kind]}"


async def fetch(
    gateway: GatewaySession,  # with parse_float=shortest, for the journal
    wanted: Wanted,
    tally: Tally,
    take: Callable[[BulkResult[Query, Any]], None] = lambda _: None,
    **options: Any,  # of exchange_rate_series_bulk
) -> None:
    """Fetch all series and count them, with a bar, until all further calls would fail too."""

    async def queries() -> AsyncGenerator[Query]:
        tally.opened = True  # the run asks for the first item when the journal is open
        symbols = wanted.symbols
        if symbols is None:
            symbols = currencies_of(await gateway.country_data.list_countries())
        tally.total, planned = wanted.queries(symbols)
        show(tally.done, tally.total)
        for query in planned:
            if (query.base, query.symbols) in tally.left_out:
                tally.skip()
            else:
                yield query

    results = gateway.currency.exchange_rate_series_bulk(queries(), **options)
    with counting_bar("Fetching") as show:
        async with aclosing(results):
            async for result in results:
                tally.add(result)
                notes = (f"{tally.failed} failed",) if tally.failed else ()
                # Results of earlier runs are there at once, and say nothing about the speed.
                show(tally.done, tally.total, tally.asked, *notes)
                _raise_if_hopeless(result, tally)
                take(result)


def _raise_if_hopeless(result: BulkResult[Query, Any], tally: Tally) -> None:
    error = result.error
    if error is None or result.from_journal:
        return
    hopeless = HOPELESS if tally.fetched else HOPELESS + HOPELESS_AT_FIRST
    # An error that is not of the SDK is a bug, and not a failed series.
    if not isinstance(error, GatewayError) or isinstance(error, hopeless):
        raise error


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
    wanted = Wanted(split_codes([base]), codes, first, last, split)
    tally = Tally(deadline, leaves_out=codes is None)
    if codes is not None:
        tally.total, _ = wanted.queries(codes)
        if not tally.total:
            raise typer.BadParameter("there is nothing to fetch: give other --symbols than --base")
    for path in filter(None, (out, rows)):
        check_place(path)
    if rows is not None and rows.resolve() == out.resolve():
        raise CommandError("--out and --rows are the same file")
    options = {"journal": out, "concurrency": calls, "deadline": deadline, "repair": repair}
    written = _fetch(ctx, wanted, tally, rows, {**options, "retry_failed": retry_failed})
    _tell(tally, printable(str(out)), written, printable(str(rows)))


def _fetch(
    ctx: typer.Context, wanted: Wanted, tally: Tally, rows: Path | None, options: dict[str, Any]
) -> Rows | None:
    # The journal is for one gateway, and each sandbox has another address.
    job = "exchange rates of the sandbox" if ctx.find_root().params["sandbox"] else None

    async def fetching(gateway: GatewaySession) -> Rows | None:
        with writing_rows(rows) as written:
            # Ordered, so that rows are in the order of the requests.
            more: dict[str, Any] = {"take": written.add, "ordered": True} if written else {}
            await fetch(gateway, wanted, tally, job=job, **options, **more)
        return written

    try:
        return ask(ctx, fetching, tells_waits=False, parse_float=shortest)
    except KeyboardInterrupt:
        # It may have written more than it counted.
        there = f"at least {tally.there} of {tally.total or 'all'} series, {tally.failed} failed"
        told = f"{printable(str(options['journal']))}: {there}\nThe same command continues."
        raise KeyboardInterrupt(told) from None
    except JournalError as error:
        words = printable(error.problem) + (" (--repair)" if error.can_be_repaired else "")
        raise CommandError(words, Status.FAILED if tally.opened else Status.MISUSED) from error
    except GatewayError as error:
        if not tally.asked:
            raise
        failure = explain(error)
        then = "The run was ended. Then give the same command again, with --retry-failed."
        raise CommandError(f"{failure}\n{then}", failure.status) from error


def _tell(tally: Tally, out: str, rows: Rows | None, rows_path: str) -> None:
    if tally.total is not None:
        say(f"{out}: {tally.there} of {tally.total} series, {tally.fetched} of them new")
    if tally.left_out:
        codes = sorted({symbol for _, symbol in tally.left_out})
        say(f"Left out, because the gateway has no rates of them: {printable(' '.join(codes))}")
    if rows is not None:
        say(f"Rates in {rows_path}: {rows.written}")
        if rows.other_shapes:
            say(f"Replies of another shape than days with rates, left out: {rows.other_shapes}")
    if complaint := tally.complaint():
        raise complaint
    if not tally.total:
        raise CommandError(
            "there is nothing to fetch: the gateway has no rates of other currencies", Status.FAILED
        )
