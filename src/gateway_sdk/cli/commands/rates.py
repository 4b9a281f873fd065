"""The commands of exchange rates: `gateway rates`, `gateway bulk rates`, `gateway bulk export`."""

import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, closing
from datetime import date
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from gateway_sdk import bulk, errors
from gateway_sdk.bulk import BulkResult, Exported, Outage, Progress
from gateway_sdk.cli.arguments import (
    GIVEN,
    START,
    AsCsv,
    AsJson,
    End,
    argument,
    choose_range,
    complete_codes,
    option,
    parse_concurrency,
    parse_span,
    parse_symbols,
    split_codes,
    switch,
)
from gateway_sdk.cli.files import cannot_write, check_place, write_file
from gateway_sdk.cli.output import choose_form, counting_bar, show, show_records
from gateway_sdk.cli.process import CommandError, Status, printable, require, say, write_out
from gateway_sdk.cli.series import (
    Series,
    draw_chart,
    draw_curves,
    read_series,
    shortest,
    to_parquet,
)
from gateway_sdk.cli.session import ask, explain, quote
from gateway_sdk.errors import GatewayError, JournalError
from gateway_sdk.models import ExchangeRateSeriesRequest as Query
from gateway_sdk.outcome import Outcome
from gateway_sdk.session import GatewaySession

app, many = typer.Typer(rich_markup_mode=None), typer.Typer(rich_markup_mode=None)
app.add_typer(many, name="bulk")


def check_png(place: str) -> Path:
    if not place.lower().endswith(".png"):
        raise typer.BadParameter(f"{place!r} does not end in .png: write a name such as rates.png")
    require("matplotlib")
    return check_place(place)


def check_parquet(place: str) -> Path:
    require("pyarrow")
    return check_place(place)


def check_out(place: str) -> Path:
    out = Path(place)
    if out.suffix.lower() not in bulk.EXPORT_SUFFIXES:
        known = ", ".join(bulk.EXPORT_SUFFIXES)
        raise CommandError(
            f"{printable(str(out))} must end with one of {known}: this chooses the format"
        )
    return check_parquet(place) if out.suffix.lower() == ".parquet" else check_place(place)


OutFile: TypeAlias = Annotated[
    Path,
    argument(
        "FILE",
        "The file, .csv, .ndjson or .parquet. Parquet needs the extra [parquet].",
        parser=check_out,
    ),
]


@app.command()
def rates(
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
    png: Annotated[
        Path | None, option("FILE.png", "Draw a chart. Needs the extra [plot].", parser=check_png)
    ] = None,
    parquet: Annotated[
        Path | None,
        option("FILE", "Write a Parquet file. Needs the extra [parquet].", parser=check_parquet),
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
    reply = ask(lambda it: it.currency.exchange_rate_series(base, codes, first, last))
    series = read_series(reply, base, codes)
    if series is None:
        if png or parquet or form == "plot":
            problem = "the reply has another shape than days with rates\n--json shows it."
            raise CommandError(problem, Status.UNCHANGED)
        show_records(reply, form)
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


def _write_files(series: Series, png: Path | None, parquet: Path | None) -> None:
    count = len(series.rates)
    told = f"{len(series.days)} days, {'1 currency' if count == 1 else f'{count} currencies'}"
    for path, make in ((parquet, to_parquet), (png, draw_chart)):
        if path is not None:
            write_file(path, make(series))
            say(f"{printable(str(path))}: {told}")


WAITING: Final = "The run waits and goes on by itself. Ctrl-C ends it; the same command continues."


class Run:
    """A series for each pair of currencies and each part of the days, and what came of them."""

    def __init__(
        self,
        bases: Sequence[str],
        symbols: Sequence[str] | None,  # None: those of all countries that the gateway knows
        days: tuple[date, date],
        split: int | None = None,  # days of a part
        deadline: float | None = None,
    ) -> None:
        first, last = days
        whole = Query(base="", symbols="", start_date=str(first), end_date=str(last))
        self._bases, self._symbols, self._deadline = bases, symbols, deadline
        self._parts = whole.split(days=split or (last - first).days + 1)
        self.opened = False  # the journal
        # Until the gateway has listed its countries, it is not known.
        self.total = None if symbols is None else self._count(symbols)
        # Series in the journal; those of them that this run fetched; requests of this run.
        self.there = self.fetched = self.asked = 0
        self.failures: list[BulkResult[Query, Any]] = []  # without those that the deadline cut
        self.left_out: set[tuple[str, str]] = set()  # base and symbol

    @property
    def done(self) -> int:
        """Series that have a result, also a failure."""
        return self.there + len(self.failures)

    def _count(self, symbols: Sequence[str]) -> int:
        return len(self._parts) * sum(base != it for base in self._bases for it in symbols)

    async def fetch(
        self,
        gateway: GatewaySession,  # with parse_float=shortest, for the journal
        **options: Any,  # of exchange_rate_series_bulk
    ) -> None:
        """Fetch all series, with a bar, until all further calls would fail too."""
        outage: Outage | None = None

        def look(progress: Progress | None = None) -> None:
            nonlocal outage
            if progress:
                if progress.outage is outage:
                    return
                outage = progress.outage
                if outage:
                    say(f"Since {outage.since:%H:%M:%S} UTC: {explain(outage.error)}\n{WAITING}")
            notes = [f"{len(self.failures)} failed"] * bool(self.failures)
            notes += [f"waiting since {outage.since:%H:%M:%S} UTC"] if outage else []
            draw(self.done, self.total, self.asked, *notes)

        with counting_bar("Fetching") as draw:
            results = gateway.currency.exchange_rate_series_bulk(
                self._queries(gateway, look), on_progress=look, **options
            )
            async with aclosing(results):
                async for result in results:
                    self.add(result)
                    look()

    async def _queries(
        self, gateway: GatewaySession, look: Callable[[], None]
    ) -> AsyncGenerator[Query]:
        """Make the requests, with one symbol each, so that each can fail by itself."""
        self.opened = True  # the run asks for the first item when the journal is open
        symbols = self._symbols
        if symbols is None:
            symbols = bulk.currencies_of(await gateway.country_data.list_countries())
            self.total = self._count(symbols)
        look()
        # After the first part of the days it is known which currencies the gateway lacks.
        for part, base, symbol in product(self._parts, self._bases, symbols):
            if (base, symbol) in self.left_out:
                self.total = (self.total or 0) - 1
            elif base != symbol:
                yield part.model_copy(update={"base": base, "symbols": symbol})

    def add(self, result: BulkResult[Query, Any]) -> None:
        """Count a result; one that the deadline has cut stays missing."""
        error, query = result.error, result.item
        self.asked += not result.from_journal
        is_late = isinstance(error, errors.DeadlineExceededError) and self._deadline is not None
        if error is None:
            self.there += 1
            self.fetched += not result.from_journal
        elif isinstance(error, errors.NotFoundError) and self._symbols is None:
            self.total = (self.total or 0) - 1
            self.left_out.add((query.base, query.symbols))
        elif result.from_journal or not is_late:
            self.failures.append(result)

    def complaint(self) -> CommandError | None:
        """Say what is missing and how to get it; None if nothing is."""
        late = "all" if self.total is None else self.total - self.done
        failed = [result.error for result in self.failures]
        lines: list[str] = []
        if late:
            lines.append(f"the deadline of {self._deadline:g} s passed: {late} series are missing")
        if failed:
            lines += [f"{len(failed)} of {self.total} series failed"]
            lines += [f"  {kind}" for kind in self.kinds()]
        if not lines:
            return None
        again = not all(isinstance(error, errors.NotFoundError) for error in failed)
        advice = "The gateway does not know them: are --base and --symbols spelt right?"
        if late or again:
            retried = ", and with --retry-failed what failed" if again else ""
            advice = f"The same command fetches what is missing{retried}."
        refused = all(getattr(error, "outcome", None) is Outcome.REFUSED for error in failed)
        status = Status.REFUSED if refused and not late else Status.UNCHANGED
        return CommandError("\n".join((*lines, advice)), status)

    def kinds(self) -> Iterator[str]:
        """Name the kinds of failures, the most frequent first, with an example of each."""
        kinds: dict[str, list[BulkResult[Query, Any]]] = {}
        for result in self.failures:
            status = getattr(result.error, "status", None)
            kind = type(result.error).__name__ + ("" if status is None else f" {status}")
            kinds.setdefault(kind, []).append(result)
        for kind, found in sorted(kinds.items(), key=lambda it: -len(it[1])):
            error, query = found[0].error, found[0].item
            words = quote(error) if isinstance(error, GatewayError) else ""
            example = printable(f"{query.symbols} for {query.base}")
            yield f"{len(found)} {kind}, such as {example}{words}"


@many.command("rates")
def bulk_rates(
    *,
    base: Annotated[
        str, option("CODES", "The base currencies: EUR or EUR,USD.", autocompletion=complete_codes)
    ],
    symbols: Annotated[
        str,
        option(
            "CODES",
            'The other currencies, such as USD,GBP; "all" means all that the gateway has rates of.',
            autocompletion=complete_codes,
        ),
    ],
    start: Annotated[date, START],
    end: End = None,
    out: Annotated[
        Path, option("FILE", "The file of rates, .csv, .ndjson or .parquet.", parser=check_out)
    ],
    journal: Annotated[
        Path | None,
        option(
            "FILE",
            "The SQLite file of replies, for a later run; by default --out with .db.",
            parser=check_place,
        ),
    ] = None,
    split: Annotated[
        int | None, option("SPAN", "The days of one request, such as 30d or 6w.", parser=parse_span)
    ] = None,
    concurrency: Annotated[
        Any,
        option("CALLS", 'Calls at a time; "adaptive" finds the best.', parser=parse_concurrency),
    ] = "adaptive",
    retry_failed: Annotated[
        bool, switch("--retry-failed", "Try again what failed before.")
    ] = False,
    patience: Annotated[
        float, option("SECONDS", "How long to wait for a gateway that is away, or a login.", min=0)
    ] = 3600.0,
    deadline: Annotated[float | None, option("SECONDS", "For the whole run.", min=0.001)] = None,
) -> None:
    """Fetch the exchange rates of many currencies into a file.

    Each reply is kept in a journal when it arrives, and the file is written at the end. Whatever
    ends a run, the same command continues it and fetches only what the journal lacks. A start such
    as 1y counts back from today: write a date if you may continue the run on another day.
    """
    codes, days = parse_symbols(symbols), choose_range(start, end, days=0)
    run = Run(split_codes([base]), codes, days, split, deadline)
    if run.total == 0:
        raise typer.BadParameter("there is nothing to fetch: give other --symbols than --base")
    kept = journal or out.with_name(f"{out.name}.db")
    if kept.resolve() == out.resolve():
        raise CommandError("--out and --journal are the same file")
    options = {"concurrency": concurrency, "deadline": deadline, "retry_failed": retry_failed}
    _fetch(run, {**options, "journal": kept, "patience": patience})
    complaint = run.complaint()
    if run.total is not None:
        say(f"{run.there} of {run.total} series, {run.fetched} of them new")
    _tell_left_out(symbol for _, symbol in run.left_out)
    if run.total is not None and run.done == run.total:
        _write(kept, out, rates=True)
    if complaint:
        raise complaint
    if not run.total:
        raise CommandError(
            "there is nothing to fetch: the gateway has no rates of other currencies", Status.FAILED
        )


def _fetch(run: Run, options: dict[str, Any]) -> None:
    # The journal is for one gateway, and each sandbox has another address.
    job = "exchange rates of the sandbox" if GIVEN["sandbox"] else None

    async def fetching(gateway: GatewaySession) -> None:
        await run.fetch(gateway, job=job, **options)

    try:
        ask(fetching, tells_waits=False, parse_float=shortest)
    except KeyboardInterrupt:
        # It may have written more than it counted.
        there = f"at least {run.there} of {run.total or 'all'} series, {len(run.failures)} failed"
        told = f"{printable(str(options['journal']))}: {there}\nThe same command continues."
        raise KeyboardInterrupt(told) from None
    except JournalError as error:
        status = Status.FAILED if run.opened else Status.MISUSED
        raise CommandError(printable(str(error)), status) from error
    except errors.OutageError as error:
        cause = explain(error.__cause__) if isinstance(error.__cause__, GatewayError) else error
        raise CommandError(
            f"the run waited {options['patience']:g} s in vain: {cause}\n"
            "The same command continues.",
            Status.UNCHANGED,
        ) from error


WITHOUT_RATES: Final = """
select json_extract(item, '$.symbols') as symbol, count(*) from items
group by json_extract(item, '$.base'), symbol
having symbol is not null and min(status is 404)
"""
"""Currencies for which the gateway always answered 404, as a run leaves them out."""


@many.command()
def export(
    journal: Annotated[Path, argument("RUN.db", "The journal of a run.")], out: OutFile
) -> None:
    """Write what the journal of a bulk run holds into a file.

    Rates are written as rows of base, symbol, date and rate; other values as one row per item, with
    the value as JSON. The journal may be that of a run that is under way.
    """
    written = _write(journal, out)
    uri = f"{journal.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as database:
        unknown = database.execute(WITHOUT_RATES).fetchall()
    _tell_left_out(symbol for symbol, _ in unknown)
    if failed := written.failed - sum(count for _, count in unknown):
        raise CommandError(f"{failed} items of the journal have no value", Status.UNCHANGED)


def _tell_left_out(symbols: Iterable[str]) -> None:
    if found := " ".join(sorted({*symbols})):
        say(f"Left out, because the gateway has no rates of them: {printable(found)}")


def _write(journal: Path, out: Path, *, rates: bool | None = None) -> Exported:
    try:
        written = bulk.export(journal, out, rates=rates)
    except JournalError as error:
        raise CommandError(printable(str(error))) from None
    except OSError as error:
        failure = cannot_write(out, error)
        raise CommandError(f"{failure}; the journal is complete", Status.FAILED) from None
    say(f"{printable(str(out))}: {written.rows} rows")
    if written.other_shapes:
        say(f"Replies of another shape than days with rates, left out: {written.other_shapes}")
    return written
