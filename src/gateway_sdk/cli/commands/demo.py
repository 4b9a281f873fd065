"""The command `gateway demo`: what the other commands do, one after the other, at a sandbox."""

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from gateway_sdk.auth import ImplicitFlow, MemoryStore, SharedTokenSource, Token, TokenKey, login
from gateway_sdk.bulk import RateRow
from gateway_sdk.cli.arguments import day_of
from gateway_sdk.cli.extras import require
from gateway_sdk.cli.failure import FAILED, CommandError
from gateway_sdk.cli.output.console import make_console, progress
from gateway_sdk.cli.output.curves import resample, sparkline
from gateway_sdk.cli.output.files import check_place, make_folder, write_file
from gateway_sdk.cli.output.key_values import KeyValue, print_key_values
from gateway_sdk.cli.output.table import Table, to_terminal
from gateway_sdk.cli.redact import words_of
from gateway_sdk.cli.series import Series, read_series, rows_of, series_of, to_journal
from gateway_sdk.cli.session import run
from gateway_sdk.errors import GatewayError, NotFoundError
from gateway_sdk.models import Country, ExchangeRateSeriesRequest
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Sandbox, Visitor
from gateway_sdk.session import GatewaySession

HEADING: Final = "Gateway demo: a year of exchange rates, asked from a gateway"
BASE: Final = "EUR"
PROBE: Final = "USD"
"""The currency whose last rate tells how far the gateway's data go."""
EPOCH: Final = date(1999, 1, 1)
"""The first day of the euro: no gateway's data can be older."""
ACCOUNT: Final = "ada@example.com"
FILES: Final = ("rates.jsonl", "rates.png")
PATIENCE: Final = 30.0
"""Seconds for the login of a visitor."""
NAMED: Final = 4
"""Currencies named in the chart, of those that rose and of those that fell most."""
CURVE: Final = 18
"""Columns of a curve: three weeks each."""
OTHER_COLUMNS: Final = 3 + 10 + 10 + 5 + CURVE + 5 * 2
"""What the column of countries leaves to the others and to the gaps between the six."""
PRECISE_BELOW: Final = 1000
"""From here on two decimals are as many digits as the ECB publishes."""


def demo(
    out: Path = Path("gateway-demo"),
    concurrency: Annotated[int, typer.Option(min=1)] = 20,
    *,
    browser: bool = False,
) -> None:
    """Show the whole SDK at work: a year of exchange rates for every country's currency.

    Starts a gateway on this machine, logs in there, lists its countries, fetches each currency's
    rates against the euro, many at once, and shows them: a table, a data file and a chart. It takes
    some seconds and needs no network. Calls that fail are counted and named.

    Args:
        out (FOLDER): The folder for rates.jsonl and rates.png. It is made if it is not there, and
            files of an earlier run are replaced.
        concurrency (N): Calls at once.
        browser: Log in yourself, with this machine's browser.
    """
    # The chart comes last, so what it needs is looked for first.
    require("matplotlib")
    show(out, concurrency, by_hand=browser)


def show(folder: Path, concurrency: int, *, by_hand: bool = False) -> None:
    """Log in, fetch, show and write; *by_hand* if the user logs in, with a browser."""
    began, console = time.monotonic(), make_console()
    make_folder(folder)
    for name in FILES:
        check_place(folder / name)
    console.print(HEADING, style="bold", end="\n\n")
    # A run that is stopped leaves nothing behind.
    with tempfile.TemporaryDirectory() as draft:
        journal = Path(draft) / FILES[0]
        findings = run(_fetch(journal, concurrency, by_hand=by_hand))
        console.print()
        console.out(to_terminal(make_table(findings, console.width), console), highlight=False)
        console.print(
            f"Units for one {BASE}: a rise means that {BASE} gained. Each curve has its own scale.",
            style="dim",
            end="\n\n",
        )
        with console.status("Drawing the chart"):
            write_files(findings, journal, folder)
    print_key_values(console, summary(findings, folder, time.monotonic() - began))
    if not findings.worked:
        raise CommandError("calls failed that should not have: see above", FAILED)


def write_files(findings: "Findings", journal: Path, folder: Path) -> None:
    """Write the journal of the run, and the chart."""
    # Imported here, because it takes longer than all the calls.
    from gateway_sdk.cli.output.chart import draw_chart  # noqa: PLC0415

    write_file(folder / FILES[0], journal.read_bytes())
    symbols = findings.quoted
    current = [symbol for symbol in symbols if findings.goes_on(symbol)]
    chart = draw_chart(
        Series(BASE, symbols, findings.series.rates),
        title=f"What one euro buys, {findings.first_day:%B %Y} to {findings.last_day:%B %Y}",
        subtitle=f"ECB reference rates through the Gateway sandbox: {len(symbols)} currencies, each"
        " at 100 on its first day. Up: the euro gained on it.",
        named=list(dict.fromkeys([*current[:NAMED], *current[-NAMED:]])),
    )
    write_file(folder / FILES[1], chart)


@dataclass
class Findings:
    """What came back; *countries* has the names of those that use a currency, in code order."""

    countries: Mapping[str, Sequence[str]]
    first_day: date
    last_day: date
    rows: list[RateRow] = field(default_factory=list)
    errors: dict[str, GatewayError] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def asked(self) -> list[str]:
        """The currencies to ask for: a base's rate against itself is 1, and no finding."""
        return [currency for currency in self.countries if currency != BASE]

    @cached_property
    def series(self) -> Series:
        """All rates, to be asked for when all are there."""
        return series_of(self.rows, BASE, self.asked)

    def change(self, symbol: str) -> Decimal:
        """Give the per cent by which a rate rose."""
        rates = list(self.series.of(symbol).values())
        return 100 * (rates[-1] / rates[0] - 1)

    def goes_on(self, symbol: str) -> bool:
        """Tell whether a series has a rate of the last day."""
        return self.last_day in self.series.of(symbol)

    @cached_property
    def quoted(self) -> list[str]:
        """Those with rates, the ones that the base gained most on first."""
        return sorted({row.symbol for row in self.rows}, key=self.change, reverse=True)

    @property
    def worked(self) -> bool:
        """Whether there are rates, and no call failed but for currencies that are not quoted."""
        return bool(self.rows) and all(
            isinstance(error, NotFoundError) for error in self.errors.values()
        )


async def _fetch(journal: Path, concurrency: int, *, by_hand: bool) -> Findings:
    """Serve a sandbox on a free port, and log in and fetch over that socket."""
    async with (
        Sandbox().serve() as address,
        GatewaySession(
            address,
            access_token=_token_source(address, by_hand=by_hand),
            tenant_id="demo",
            parse_float=Decimal,
        ) as gateway,
    ):
        findings = await make_plan(gateway, datetime.now(UTC).date())
        print_key_values(make_console(), _plan(findings, address, by_hand=by_hand))
        await fetch_all(gateway, findings, journal, concurrency)
        return findings


def _token_source(address: str, *, by_hand: bool) -> SharedTokenSource:
    """Make a source that logs in to the sandbox at this address when a token is needed."""
    flow = ImplicitFlow(address + AUTHORIZE_PATH, SANDBOX_CLIENT_ID)

    async def acquire() -> Token:
        if by_hand:
            return await login(flow)
        visitor = Visitor(account=ACCOUNT)
        return await login(flow, browser=visitor, show=lambda _: None, timeout=PATIENCE)

    key = TokenKey.of(flow.authorization_url, flow.client_id, address)
    return SharedTokenSource(MemoryStore(key), acquire)


async def make_plan(gateway: GatewaySession, today: date) -> Findings:
    """Learn from the gateway which currencies there are, and which twelve months are its last."""
    countries = await gateway.country_data.list_countries()
    reply = await gateway.currency.exchange_rate_series(BASE, PROBE, EPOCH, today)
    probe = read_series(reply, BASE, [PROBE])
    if not (probe and probe.days):
        raise CommandError(f"the gateway has no rates for {PROBE}, so there is no range", FAILED)
    last_day = probe.days[-1]
    return Findings(group_by_currency(countries), day_of("1y", last_day), last_day)


def group_by_currency(countries: Iterable[Country]) -> dict[str, list[str]]:
    """Give the names of the countries that use each currency, by its code, in code order.

    The country that a currency is named after comes first, the others by name: an ISO 4217 code
    begins with its country's ISO 3166 one, as in USD.
    """

    def rank(country: Country) -> tuple[str, bool, str]:
        named_after = country.two_digit_iso_code == country.currency[:2]
        return country.currency, not named_after, country.country_name

    users: defaultdict[str, list[str]] = defaultdict(list)
    for country in sorted(countries, key=rank):
        users[country.currency].append(country.country_name)
    return dict(users)


async def fetch_all(
    gateway: GatewaySession, findings: Findings, journal: Path, concurrency: int
) -> None:
    """Fetch the series of each currency, so many at once; a failure is a finding too."""
    began = time.monotonic()
    days = {
        "start_date": findings.first_day.isoformat(),
        "end_date": findings.last_day.isoformat(),
    }
    queries = [
        ExchangeRateSeriesRequest(base=BASE, symbols=symbol, **days) for symbol in findings.asked
    ]
    results = gateway.currency.exchange_rate_series_bulk(
        queries, concurrency=concurrency, journal=journal, dump=to_journal
    )
    bar = (TextColumn("Fetching"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    count = 0
    with progress(*bar) as show_done:
        async with aclosing(results):
            async for result in results:
                count += 1
                if show_done is not None:
                    show_done(count, len(queries))
                if isinstance(result.error, GatewayError):
                    findings.errors[result.item.symbols] = result.error
                else:  # a bug is raised here
                    findings.rows += rows_of(result.value, BASE) or []
    findings.seconds = time.monotonic() - began


def _plan(findings: Findings, address: str, *, by_hand: bool) -> Iterator[KeyValue]:
    """Tell where the gateway is, how its token came, and what it is about to be asked."""
    by_script = f"as {ACCOUNT}, by the implicit flow; a script plays the browser"
    users = sum(map(len, findings.countries.values()))
    yield "Gateway", f"{address}, a sandbox on this machine"
    yield "Login", "in your browser, by the implicit flow" if by_hand else by_script
    yield "Countries", f"{users}, which use {len(findings.countries)} currencies"
    days = f"{findings.first_day} to {findings.last_day}"
    yield "Range", f"{days}, the last twelve months that it has"


def make_table(findings: Findings, width: int) -> Table:
    """Make the table of those with rates, *width* columns wide, which must be 66 at least."""
    room, series = width - OTHER_COLUMNS, findings.series
    rows: list[list[str]] = []
    styles: list[str] = []
    for symbol in findings.quoted:
        rates = list(series.of(symbol).values())
        change = findings.change(symbol)
        countries = name_countries(findings.countries.get(symbol, ()), room)
        ends = [format_rate(rates[0]), format_rate(rates[-1])]
        rows.append(
            [symbol, countries.ljust(room), *ends, format_change(change), _curve(findings, symbol)]
        )
        styles.append("cyan" if change > 0 else "yellow")
    return Table(("", "Used in", "First", "Last", "%", ""), rows, styles)


def name_countries(countries: Sequence[str], room: int) -> str:
    """Name as many countries as fit into *room* columns, and count the rest; the first is cut."""
    for shown in range(len(countries), 1, -1):
        text = ", ".join(countries[:shown]) + _rest(len(countries) - shown)
        if len(text) <= room:
            return text
    rest = _rest(len(countries) - 1)
    first = countries[0] if countries else ""
    return (first if len(first) <= room - len(rest) else f"{first[: room - len(rest) - 1]}…") + rest


def _rest(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def format_rate(rate: Decimal) -> str:
    """Write a rate with four decimals, or two when it is large."""
    return f"{rate:.4f}" if rate < PRECISE_BELOW else f"{rate:.2f}"


def format_change(change: Decimal) -> str:
    """Write a change in per cent with its sign; what rounds to nothing has none."""
    text = f"{change:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def _curve(findings: Findings, symbol: str) -> str:
    """Draw a series over the whole range, or up to its end if that comes before."""
    rates, end = findings.series.of(symbol), ""
    last_day = findings.last_day
    if not findings.goes_on(symbol):
        last_day = list(rates)[-1]
        end = f" to {last_day}"
    return sparkline(resample(rates, findings.first_day, last_day, CURVE - len(end))) + end


def summary(findings: Findings, folder: Path, seconds: float) -> Iterator[KeyValue]:
    """Tell what was done, what failed and why, how long it took, and where the files are."""
    series, failed = findings.series, findings.errors
    calls, known = len(findings.asked) + 2, len(findings.countries)
    yield "Calls", f"{calls} in all: {calls - len(failed)} succeeded, {len(failed)} failed"
    rates = f"{len(findings.rows)} daily rates"
    yield "Rates", f"{rates} of {len(findings.quoted)} currencies, out of {known}"
    for symbol in findings.quoted:
        if not findings.goes_on(symbol):
            yield "Ended", f"{symbol}: its last rate is of {list(series.of(symbol))[-1]}"
    silent = [code for code in findings.asked if not series.of(code) and code not in failed]
    if silent:
        yield "No rates", f"{' '.join(silent)}: known to the gateway, but not quoted in this range"
    for reason, codes in _by_reason(failed).items():
        yield "Failed", f"{len(codes)} × {reason}"  # noqa: RUF001
        if words := words_of(failed[codes[0]]):
            more = " and so on" if len(codes) > 1 else ""
            yield "", f"In the gateway's words: “{words}”{more}"
        yield "", " ".join(codes)
    yield "Files", str(folder / FILES[0])
    yield "", str(folder / FILES[1])
    yield "Took", f"{seconds:.1f} s in all, of which the series {findings.seconds:.1f} s"


def _by_reason(failed: Mapping[str, GatewayError]) -> dict[str, list[str]]:
    """Group the failed ones by the class of the error and what it says."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for code, error in sorted(failed.items()):
        groups[f"{type(error).__name__}: {error.args[0]}"].append(code)
    return groups
