"""The commands of exchange rates: `gateway rates`, `gateway bulk rates`."""

import re
from calendar import monthrange
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from gateway_sdk import bulk, errors
from gateway_sdk.bulk import BulkResult, Outage, Progress
from gateway_sdk.cli.arguments import (
    GIVEN,
    argument,
    check_place,
    option,
    shortest,
    switch,
    writing,
)
from gateway_sdk.cli.journals import check_out, check_shapes, many, write_file
from gateway_sdk.cli.output import AsCsv, AsJson, choose_form, counting_bar, show, show_records
from gateway_sdk.cli.process import CommandError, Status, printable, say
from gateway_sdk.cli.series import draw_chart, load_matplotlib, read_series
from gateway_sdk.cli.session import ask, explain, quote, settings_of_command
from gateway_sdk.errors import JournalError
from gateway_sdk.models import ExchangeRateSeriesRequest as Query
from gateway_sdk.outcome import Advice, Outcome
from gateway_sdk.session import GatewaySession

app = typer.Typer(rich_markup_mode=None)
app.add_typer(many, name="bulk")

FORMATS: Final = "2026-01-31, today, yesterday, or a time before today: 10d, 6w, 3m, 1y"
ALL: Final = "all"  # in small letters: ALL is the code of the Albanian lek

_CODE: Final = re.compile(r"[a-z]{3}")
_AGO: Final = re.compile(r"([0-9]{1,5})([dwmy])")
_DAYS: Final = {"d": 1, "w": 7}
_MONTHS: Final = {"m": 1, "y": 12}


def split_codes(words: Iterable[str]) -> list[str]:
    codes = [code for word in words for code in word.replace(",", " ").split()]
    if not codes:
        raise typer.BadParameter("no currency is named: write them as USD,GBP")
    # Capitals as in ISO 4217. Anything else is left as it is: the interface gives no format.
    return list(dict.fromkeys(code.upper() if _CODE.fullmatch(code) else code for code in codes))


def parse_symbols(text: str) -> list[str] | None:
    words = text.replace(",", " ").split()
    if words == [ALL]:
        return None
    if ALL in words:
        raise typer.BadParameter(f"{ALL!r} must stand alone", param_hint="--symbols")
    return split_codes(words)


def parse_day(text: str) -> date:
    try:
        return day_of(text, datetime.now(UTC).date())
    except (ValueError, OverflowError):  # the latter for a day before the year 1
        raise typer.BadParameter(f"{text!r} is not a day: write {FORMATS}") from None


def day_of(text: str, today: date) -> date:
    word = text.strip().lower()
    if word in ("today", "yesterday"):
        return today - timedelta(days=word == "yesterday")
    if not (ago := _AGO.fullmatch(word)):
        # Not fromisoformat: it also takes 20260131 and 2026-W05-6, which may be typing errors.
        return datetime.strptime(word, "%Y-%m-%d").replace(tzinfo=UTC).date()
    count, unit = int(ago[1]), ago[2]
    if unit in _DAYS:
        return today - timedelta(days=count * _DAYS[unit])
    year, month = divmod(today.year * 12 + today.month - 1 - count * _MONTHS[unit], 12)
    # In a shorter month, the last day stands for the 31st.
    return date(year, month + 1, min(today.day, monthrange(year, month + 1)[1]))


def parse_span(text: str) -> int:
    span = _AGO.fullmatch(text.strip().lower())
    days = int(span[1]) * _DAYS.get(span[2], 0) if span else 0
    if not days:
        raise typer.BadParameter(f"{text!r} is not a number of days: write 30d or 6w")
    return days


START: Final = option("DAY", f"The first day: {FORMATS}.", parser=parse_day)
End: TypeAlias = Annotated[
    date | None, option("DAY", "The last day; today by default.", parser=parse_day)
]


def choose_range(start: date | None, end: date | None, *, days: int) -> tuple[date, date]:
    last = end or datetime.now(UTC).date()
    first = start or last - timedelta(days=days)
    if first > last:
        raise typer.BadParameter(f"--start {first} is after --end {last}")
    return first, last


def check_png(place: str) -> Path:
    path = check_place(place)
    if path.suffix.lower() != ".png":
        raise CommandError(f"{printable(place)} must end with .png: the chart is a PNG")
    load_matplotlib(path.parent)  # before any call is made
    return path


@app.command()
def rates(
    base: Annotated[str, argument("BASE", "The base currency.")],
    symbols: Annotated[list[str], argument("SYMBOLS", "The others: USD,GBP or USD GBP.")],
    *,
    start: Annotated[date | None, START] = None,
    end: End = None,
    as_json: AsJson = False,
    as_csv: AsCsv = None,
    png: Annotated[
        Path | None, option("FILE.png", "Draw a chart. Needs the extra [plot].", parser=check_png)
    ] = None,
) -> None:
    """Fetch the exchange rates of currencies against another, day by day.

    The default is the last 30 days. Days without rates, such as Sundays, have no row.
    """
    form = choose_form(as_json=as_json, as_csv=as_csv)
    first, last = choose_range(start, end, days=30)
    [base, *others], codes = split_codes([base]), split_codes(symbols)
    if others:
        raise typer.BadParameter("give one base currency; `gateway bulk rates` takes several")
    reply = ask(lambda it: it.currency.exchange_rate_series(base, codes, first, last))
    series = read_series(reply, base, codes)
    if series is None:
        if png:
            problem = "the reply has another shape than days with rates\n--json shows it."
            raise CommandError(problem, Status.UNCHANGED)
        show_records(reply, form)
        return
    if not series.days:
        say(f"There are no rates from {first} to {last}: choose other days.")
        if png:
            raise CommandError("there is nothing to draw", Status.FAILED)
    if png and not series.can_be_drawn:
        problem = "the reply has a rate that no chart can show\n--json shows it."
        raise CommandError(problem, Status.UNCHANGED)
    if form != "table" or not png:
        show(series.table(), reply, form)
    if png:
        drawn = draw_chart(series)
        with writing(png, Status.FAILED):
            png.write_bytes(drawn)
        say(f"{printable(str(png))}: {len(series.days)} days")


REFUSED: Final = "Running it again does not help: are --base and --symbols right?"
AGAIN: Final = (
    "The same command fetches what is missing, and with --retry-failed what failed and may succeed"
    " now."
)
SANDBOX_JOB: Final = "exchange rates of the sandbox"
WAITING: Final = "The run waits and goes on by itself. Ctrl-C ends it; the same command continues."

_PAIR: Final = attrgetter("base", "symbols")

Result: TypeAlias = BulkResult[Query, Any]


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
        self._days = {(part.start_date, part.end_date) for part in self._parts}
        self._asked = symbols or ()
        self.opened = False  # the journal
        # Until the gateway has listed its countries, it is not known.
        self.total = None if symbols is None else self._count(symbols)
        self.there = self.fetched = 0  # series in the journal; those of them that are of this run
        self.failures: list[Result] = []  # without those that the deadline cut
        self.left_out: set[str] = set()  # symbols without rates of a base

    @property
    def done(self) -> int:
        """Series that have a result, also a failure."""
        return self.there + len(self.failures)

    def _count(self, symbols: Sequence[str]) -> int:
        return len(self._parts) * sum(base != it for base in self._bases for it in symbols)

    async def fetch(
        self,
        gateway: GatewaySession,  # with parse_float=shortest, where rates may have many digits
        start: Callable[..., AsyncGenerator[Result]] | None = None,  # the run
        **options: Any,  # of exchange_rate_series_bulk
    ) -> None:
        """Fetch all series, with a bar, until all further calls would fail too."""
        known: Outage | None = None

        def tell(progress: Progress) -> None:
            nonlocal known
            known, before = progress.outage, known
            if known and known is not before:
                say(f"Since {known.since:%H:%M:%S} UTC: {explain(known.error)}\n{WAITING}")

        queries = self._queries(gateway, tell, options.get("patience", 0.0))
        start = start or gateway.currency.exchange_rate_series_bulk
        subject = _PAIR if self._symbols is None else None
        series = start(queries, on_progress=tell, subject=subject, **options)
        with suppress(errors.DeadlineExceededError), counting_bar("Fetching") as draw:
            draw(0, self.total)
            async with aclosing(series) as results:
                async for result in results:
                    self.add(result)
                    notes = [f"{len(self.failures)} failed"] if self.failures else []
                    if not result.from_journal:  # it would seem to make the gateway faster
                        draw(self.done, self.total, *notes)

    async def _queries(
        self, gateway: GatewaySession, tell: Callable[[Progress], None], patience: float | None
    ) -> AsyncGenerator[Query]:
        """Make the requests, with one symbol each, so that each can fail by itself."""
        self.opened = True  # the run asks for the first item when the journal is open
        symbols = self._symbols
        if symbols is None:
            symbols = bulk.currencies_of(await _countries(gateway, tell, patience))
            self.total = self._count(symbols)
        self._asked = symbols
        # After the first part of the days the run knows which currencies the gateway lacks.
        for part, base, symbol in product(self._parts, self._bases, symbols):
            if base != symbol:
                yield part.model_copy(update={"base": base, "symbols": symbol})

    def asks(self, item: Any) -> bool:
        """Tell whether a series of the journal is of this run, not only of earlier commands."""
        is_pair = item["base"] in self._bases and item["symbols"] in self._asked
        return is_pair and (item["startDate"], item["endDate"]) in self._days

    def add(self, result: Result) -> None:
        """Count a result; one that the deadline has cut stays missing."""
        error, query = result.error, result.item
        is_late = isinstance(error, errors.DeadlineExceededError) and self._deadline is not None
        if error is None:
            self.there += 1
            self.fetched += not result.from_journal
        elif isinstance(error, errors.NotFoundError) and self._symbols is None:
            self.total = (self.total or 0) - 1
            self.left_out.add(query.symbols)
        elif result.from_journal or not is_late:
            self.failures.append(result)

    def check(self) -> None:
        """Raise what is missing, with the way to get it."""
        late = "all" if self.total is None else self.total - self.done
        failed = self.failures
        lines: list[str] = []
        if late:
            lines.append(f"the deadline of {self._deadline:g} s passed: {late} series are missing")
        if failed:
            lines.append(f"{len(failed)} of {self.total} series failed")
        lines += (f"  {kind}" for kind in self.kinds())
        if not lines:
            return
        status, step = Status.UNCHANGED, AGAIN
        said = {(it.outcome, it.advice) for it in failed}
        if not late and said == {(Outcome.REFUSED, Advice.FIX)}:
            status, step = Status.REFUSED, REFUSED
            forbidden = [it.error for it in failed if isinstance(it.error, errors.ForbiddenError)]
            if len(forbidden) == len(failed):
                step = f"{forbidden[0].hints[1]}\n{AGAIN}"
        raise CommandError("\n".join((*lines, step)), status)

    def kinds(self) -> Iterator[str]:
        """Name the kinds of failures, the most frequent first, with an example of each."""
        kinds: dict[str, list[Result]] = defaultdict(list)
        for result in self.failures:
            status = getattr(result.error, "status", None) or ""
            kinds[f"{type(result.error).__name__} {status}".rstrip()].append(result)
        for kind, found in sorted(kinds.items(), key=lambda it: -len(it[1])):
            error, query = found[0].error, found[0].item
            words = quote(error) if isinstance(error, errors.GatewayError) else ""
            example = printable(f"{query.symbols} for {query.base}")
            yield f"{len(found)} {kind}, such as {example}{words}"


async def _countries(
    gateway: GatewaySession, tell: Callable[[Progress], None], patience: float | None
) -> Any:
    """List the countries, and wait for a gateway or a login that is away, as for other calls."""
    # So many items in a row are an outage, if all fail; the first that succeeds is enough.
    once = gateway.with_options(retry=None)  # the run tries again
    tries = bulk.run(
        lambda _: once.country_data.list_countries(),
        range(5),
        concurrency=1,
        patience=patience,
        on_progress=tell,
    )
    async with aclosing(tries) as results:
        result = await anext(results)
    return result.value


@many.command("rates")
def bulk_rates(
    *,
    base: Annotated[str, option("CODES", "The base currencies: EUR or EUR,USD.")],
    symbols: Annotated[
        str,
        option("CODES", 'The others, such as USD,GBP; "all": all that the gateway has rates of.'),
    ],
    start: Annotated[date, START],
    end: End = None,
    out: Annotated[Path, option("FILE", "A .csv, .ndjson or .parquet file.", parser=check_out)],
    journal: Annotated[
        Path | None,
        option("FILE", "The file of replies; by default --out with .db.", parser=check_place),
    ] = None,
    split: Annotated[
        int | None, option("SPAN", "The days of one request, such as 30d or 6w.", parser=parse_span)
    ] = None,
    concurrency: Annotated[
        str, option("CALLS", 'Calls at a time; "adaptive" finds the best.')
    ] = "adaptive",
    retry_failed: Annotated[
        bool, switch("--retry-failed", "Also what failed and may succeed now.")
    ] = False,
    patience: Annotated[
        float, option("SECONDS", "How long to wait for a gateway that is away, or a login.", min=0)
    ] = 3600.0,
    deadline: Annotated[float | None, option("SECONDS", "For the whole run.", min=0.001)] = None,
    workers: Annotated[
        int | None, option("N", "Call from N processes of this machine, by [cluster].", min=1)
    ] = None,
    cluster: Annotated[
        str | None, option("ADDRESS", "Call from a Dask cluster, as tls://scheduler:8786.")
    ] = None,
) -> None:
    """Fetch the exchange rates of many currencies into a file.

    Each reply is kept in a journal when it arrives, and the file is written at the end. Whatever
    ends a run, the same command continues it and fetches only what the journal lacks. A start such
    as 1y counts back from today: write a date if you may continue the run on another day.
    """
    codes, days = parse_symbols(symbols), choose_range(start, end, days=0)
    # In front of the command it is the same option, and not that of each call.
    before, GIVEN["deadline"] = GIVEN["deadline"], None
    deadline = deadline or before
    run = Run(split_codes([base]), codes, days, split, deadline)
    if run.total == 0:
        raise typer.BadParameter("there is nothing to fetch: give other --symbols than --base")
    kept = journal or out.with_name(f"{out.name}.db")
    if kept.resolve() == out.resolve():
        raise CommandError("--out and --journal are the same file")
    calls = int(concurrency) if concurrency.isdecimal() else concurrency
    options = {"concurrency": calls, "deadline": deadline, "retry_failed": retry_failed}
    if workers or cluster:
        options |= _on_workers(workers, cluster)
    _fetch(run, kept, {**options, "patience": patience})
    if run.total is not None:
        say(f"{run.there} of {run.total} series, {run.fetched} of them new")
    if run.left_out:
        found = printable(" ".join(sorted(run.left_out)))
        say(f"Left out, because the gateway has no rates of them: {found}")
    others = 0
    if run.done == run.total:
        others = write_file(kept, out, rates=True, only=run.asks).other_shapes
    run.check()
    if not run.total:
        problem = "there is nothing to fetch: the gateway has no rates of other currencies"
        raise CommandError(problem, Status.FAILED)
    check_shapes(others)


many.registered_commands.sort(key=lambda it: it.name != "rates")  # in the help it is the first


def _on_workers(workers: int | None, address: str | None) -> dict[str, Any]:
    """Return what starts a run on a cluster; its workers read the environment too."""
    if GIVEN["sandbox"]:
        problem = "--sandbox is a sandbox in this process, which workers cannot reach"
        raise CommandError(f"{problem}\nStart one with `gateway sandbox`.")
    if workers and address:
        raise CommandError("--workers and --cluster exclude each other: choose one")
    from gateway_sdk.cluster import run  # noqa: PLC0415 - few commands use it

    names = ("base_url", "auth_url", "client_id")
    session = {name: GIVEN[name] for name in names if GIVEN.get(name)} | {"parse_float": shortest}
    start = partial(run, "exchange_rate_series", address=address, session=session)
    job = f"exchange rates of {settings_of_command().get('base_url')}, on a cluster"
    return {"start": partial(start, workers=workers) if workers else start, "job": job}


def _fetch(run: Run, journal: Path, options: dict[str, Any]) -> None:
    # A job has the gateway's address in its name; a sandbox in this process has none.
    job = SANDBOX_JOB if GIVEN["sandbox"] else None
    options = {"journal": journal, "job": job, **options}
    try:
        ask(lambda it: run.fetch(it, **options), tells_waits=False, parse_float=shortest)
    except KeyboardInterrupt:
        # It may have written more than it counted.
        there = f"at least {run.there} of {run.total or 'all'} series, {len(run.failures)} failed"
        told = f"{printable(str(journal))}: {there}\nThe same command continues."
        raise KeyboardInterrupt(told) from None
    except JournalError as error:
        status = Status.FAILED if run.opened else Status.MISUSED
        raise CommandError(printable(str(error)), status) from error
