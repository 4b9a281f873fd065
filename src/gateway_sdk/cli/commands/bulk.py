"""The commands `gateway bulk rates` and `gateway bulk export`."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gateway_sdk import bulk, errors
from gateway_sdk.bulk import BulkResult, Exported, Outage, Progress, currencies_of
from gateway_sdk.cli.arguments import (
    DAY,
    CodesOption,
    choose_range,
    parse_concurrency,
    parse_span,
    parse_symbols,
    split_codes,
)
from gateway_sdk.cli.files import check_place
from gateway_sdk.cli.output.console import counting_bar
from gateway_sdk.cli.process import CommandError, Status, printable, require, say
from gateway_sdk.cli.series import shortest
from gateway_sdk.cli.session import ask, explain, quote
from gateway_sdk.errors import GatewayError, JournalError
from gateway_sdk.models import ExchangeRateSeriesRequest as Query
from gateway_sdk.operations import EXCHANGE_RATE_SERIES
from gateway_sdk.outcome import Outcome
from gateway_sdk.session import GatewaySession

HOPELESS_AT_FIRST: Final = (errors.ForbiddenError, errors.RedirectError)
"""Errors that all further calls would have too, as long as no series has arrived: then it is the
gateway, and not one series."""


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

    watch = _OutageWatch()
    results = gateway.currency.exchange_rate_series_bulk(
        queries(), on_progress=watch.look, **options
    )
    with counting_bar("Fetching") as show:
        watch.show = lambda: show(tally.done, tally.total, tally.asked, *watch.notes(tally.failed))
        async with aclosing(results):
            async for result in results:
                tally.add(result)
                # Results of earlier runs are there at once, and say nothing about the speed.
                watch.show()
                _raise_if_hopeless(result, tally)
                take(result)


class _OutageWatch:
    """Says what a run waits for: once in a line, and in the bar until the run goes on."""

    def __init__(self) -> None:
        self.show: Callable[[], None] = lambda: None
        self._outage: Outage | None = None

    def look(self, progress: Progress) -> None:
        if progress.outage is self._outage:
            return
        self._outage = progress.outage
        if self._outage:
            say(
                f"Since {self._outage.since:%H:%M:%S} UTC: {explain(self._outage.error)}\n{WAITING}"
            )
        self.show()

    def notes(self, failed: int) -> Iterator[str]:
        if failed:
            yield f"{failed} failed"
        if self._outage:
            yield f"waiting since {self._outage.since:%H:%M:%S} UTC"


WAITING: Final = "The run waits and goes on by itself. Ctrl-C ends it; the same command continues."


def _raise_if_hopeless(result: BulkResult[Query, Any], tally: Tally) -> None:
    error = result.error
    if error is None or result.from_journal:
        return
    is_hopeless = isinstance(error, HOPELESS_AT_FIRST) and not tally.fetched
    # An error that is not of the SDK is a bug, and not a failed series.
    if not isinstance(error, GatewayError) or is_hopeless:
        raise error


def rates(
    ctx: typer.Context,
    *,
    base: CodesOption,
    symbols: CodesOption,
    start: Annotated[date, DAY],
    end: Annotated[date | None, DAY] = None,
    out: Annotated[Path, typer.Option()],
    journal: Path | None = None,
    split: Annotated[int | None, typer.Option(parser=parse_span)] = None,
    concurrency: str = "adaptive",
    retry_failed: bool = False,
    patience: Annotated[float, typer.Option(min=0)] = 3600.0,
    deadline: Annotated[float | None, typer.Option(min=0.001)] = None,
) -> None:
    """Fetch the exchange rates of many currencies into a file.

    Each reply is kept in a journal when it arrives, and the file is written at the end. Whatever
    ends a run, the same command continues it and fetches only what the journal lacks. A start such
    as 1y counts back from today: write a date if you may continue the run on another day.

    Args:
        base (CODES): The base currencies, such as EUR or EUR,USD.
        symbols (CODES): The other currencies, such as USD,GBP; "all" stands for the currencies of
            all countries of which the gateway has rates.
        out (FILE): The file of rates, .csv, .ndjson or .parquet: base, symbol, date, rate.
        journal (FILE): The SQLite file of replies, which a later run continues. Default: the name
            of --out with .db at its end.
        split (SPAN): The days of one request, such as 30d or 6w.
        concurrency (CALLS): Calls at a time; "adaptive" finds out how many the gateway accepts.
        retry_failed: Fetch again what failed in an earlier run and may succeed now.
        patience (SECONDS): How long to wait for a gateway that is away, or for a login.
        deadline (SECONDS): Seconds for the whole run.

    Examples:
        gateway bulk rates --base EUR --symbols USD,GBP --start 1m --out rates.csv
        gateway bulk rates --base EUR --symbols all --start 1w --out all.csv
    """
    calls, codes = parse_concurrency(concurrency), parse_symbols(symbols)
    first, last = choose_range(start, end, days=0)
    wanted = Wanted(split_codes([base]), codes, first, last, split)
    tally = Tally(deadline, leaves_out=codes is None)
    if codes is not None:
        tally.total, _ = wanted.queries(codes)
        if not tally.total:
            raise typer.BadParameter("there is nothing to fetch: give other --symbols than --base")
    check_out(out)
    kept = journal or out.with_name(f"{out.name}.db")
    check_place(kept)
    if kept.resolve() == out.resolve():
        raise CommandError("--out and --journal are the same file")
    options = {"journal": kept, "concurrency": calls, "deadline": deadline, "patience": patience}
    _fetch(ctx, wanted, tally, {**options, "retry_failed": retry_failed})
    complaint = tally.complaint()
    if tally.total is not None:
        say(f"{tally.there} of {tally.total} series, {tally.fetched} of them new")
    if tally.left_out:
        found = sorted({symbol for _, symbol in tally.left_out})
        say(f"Left out, because the gateway has no rates of them: {printable(' '.join(found))}")
    if tally.total is not None and tally.done == tally.total:
        _write(kept, out, rates=True)
    if complaint:
        raise complaint
    if not tally.total:
        raise CommandError(
            "there is nothing to fetch: the gateway has no rates of other currencies", Status.FAILED
        )


def _fetch(ctx: typer.Context, wanted: Wanted, tally: Tally, options: dict[str, Any]) -> None:
    # The journal is for one gateway, and each sandbox has another address.
    job = "exchange rates of the sandbox" if ctx.find_root().params["sandbox"] else None

    async def fetching(gateway: GatewaySession) -> None:
        await fetch(gateway, wanted, tally, job=job, **options)

    try:
        ask(ctx, fetching, tells_waits=False, parse_float=shortest)
    except KeyboardInterrupt:
        # It may have written more than it counted.
        there = f"at least {tally.there} of {tally.total or 'all'} series, {tally.failed} failed"
        told = f"{printable(str(options['journal']))}: {there}\nThe same command continues."
        raise KeyboardInterrupt(told) from None
    except JournalError as error:
        status = Status.FAILED if tally.opened else Status.MISUSED
        raise CommandError(printable(str(error)), status) from error
    except errors.OutageError as error:
        cause = explain(error.__cause__) if isinstance(error.__cause__, GatewayError) else error
        raise CommandError(
            f"the run waited {options['patience']:g} s in vain: {cause}\n"
            "The same command continues.",
            Status.UNCHANGED,
        ) from error
    except GatewayError as error:
        if error.operation != EXCHANGE_RATE_SERIES.name:
            raise
        failure = explain(error)
        then = "The run was ended. Then give the same command again."
        raise CommandError(f"{failure}\n{then}", failure.status) from error


def export(journal: Path, out: Path) -> None:
    """Write what the journal of a bulk run holds into a file.

    Rates are written as rows of base, symbol, date and rate; other values as one row per item, with
    the value as JSON. The journal may be that of a run that is under way.

    Args:
        journal (RUN.db): The journal, such as that of `gateway bulk rates`.
        out (FILE): The file, .csv, .ndjson or .parquet. Parquet needs the extra [parquet].

    Examples:
        gateway bulk export rates.csv.db rates.ndjson
    """
    check_out(out)
    written = _write(journal, out)
    if written.failed:
        raise CommandError(f"{written.failed} items of the journal have no value", Status.UNCHANGED)


def check_out(out: Path) -> None:
    check_place(out)
    if out.suffix.lower() not in bulk.EXPORT_SUFFIXES:
        known = ", ".join(bulk.EXPORT_SUFFIXES)
        raise CommandError(
            f"{printable(str(out))} must end with one of {known}: this chooses the format"
        )
    if out.suffix.lower() == ".parquet":
        require("pyarrow")


def _write(journal: Path, out: Path, *, rates: bool | None = None) -> Exported:
    try:
        written = bulk.export(journal, out, rates=rates)
    except JournalError as error:
        raise CommandError(printable(str(error))) from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise CommandError(
            f"cannot write {printable(str(out))}: {why}; the journal is complete", Status.FAILED
        ) from None
    say(f"{printable(str(out))}: {written.rows} rows")
    if written.other_shapes:
        say(f"Replies of another shape than days with rates, left out: {written.other_shapes}")
    return written
