"""The command `gateway demo`: what the other commands do, one after the other, at a sandbox."""

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from gateway_sdk.auth import ImplicitFlow, Token, login
from gateway_sdk.bulk import BulkResult, RateRow
from gateway_sdk.cli.arguments import day_of
from gateway_sdk.cli.extras import require
from gateway_sdk.cli.failure import FAILED, CommandError
from gateway_sdk.cli.job import Plan, Tally, bar_of, fetch
from gateway_sdk.cli.output.console import KeyValue, make_console, print_key_values, progress
from gateway_sdk.cli.output.curves import area, resample
from gateway_sdk.cli.output.files import check_place, make_folder, write_file
from gateway_sdk.cli.output.table import Table, to_terminal
from gateway_sdk.cli.series import Series, rows_of, series_of
from gateway_sdk.cli.session import run
from gateway_sdk.models import Country
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Sandbox, Visitor
from gateway_sdk.sandbox._reference_data import reference_rates
from gateway_sdk.session import GatewaySession

BASE: Final = "EUR"
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
FEWEST_FOR_COUNTRIES: Final = 20
"""In a terminal that has no more room for them, the countries are left out."""
PRECISE_BELOW: Final = 1000
"""From here on two decimals are as many digits as the ECB publishes."""


def demo(out: Path = Path("gateway-demo")) -> None:
    """Show the whole SDK at work: a year of exchange rates for every country's currency.

    Starts a gateway on this machine, logs in there, lists its countries, fetches each currency's
    rates against the euro, many at once, and shows them: a table, a data file and a chart. It takes
    some seconds and needs no network.

    Args:
        out (FOLDER): The folder for rates.jsonl and rates.png. It is made if it is not there, and
            files of an earlier run are replaced.
    """
    # The chart comes last, so what it needs is looked for first.
    require("matplotlib")
    began, console = time.monotonic(), make_console()
    make_folder(out)
    for name in FILES:
        check_place(out / name)
    heading = "Gateway demo: a year of exchange rates, asked from a gateway"
    console.print(heading, style="bold", end="\n\n")
    # A run that is stopped leaves nothing behind.
    with tempfile.TemporaryDirectory() as draft:
        journal = Path(draft) / FILES[0]
        findings = run(_fetch(journal, console))
        console.print()
        console.out(to_terminal(make_table(findings, console.width), console)[0], highlight=False)
        console.print(
            f"Units for one {BASE}: a rise means that {BASE} gained. Each curve has its own scale.",
            style="dim",
            end="\n\n",
        )
        with console.status("Drawing the chart"):
            write_file(out / FILES[0], journal.read_bytes())
            write_file(out / FILES[1], _draw(findings))
    print_key_values(console, summary(findings, out, time.monotonic() - began))
    if findings.tally.failed:
        raise CommandError("calls failed that should not have: see above", FAILED)


@dataclass
class Findings:
    """What came back.

    Attributes:
        countries: The names of those that use a currency, by its code, in code order.
        first_day: The first day that is asked for.
        last_day: The last day that the gateway has.
        tally: What was fetched, what failed, and what the gateway does not know.
        rows: All rates.
        silent: Currencies that the gateway knows, and has no rates of in these days.
    """

    countries: Mapping[str, Sequence[str]]
    first_day: date
    last_day: date
    tally: Tally = field(default_factory=lambda: Tally(leaves_out=True))
    rows: list[RateRow] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)

    def take(self, result: BulkResult[Any, Any]) -> None:
        """Keep the rates of a result."""
        if result.error is None:
            rows = rows_of(result.value, BASE) or []
            self.rows += rows
            self.silent += [] if rows else [result.item.symbols]

    @cached_property
    def series(self) -> Series:
        """All rates, when all are there; the currencies that the base gained most on come first."""
        series = series_of(self.rows, BASE, ())
        ranked = sorted(series.symbols, key=series.change, reverse=True)
        return Series(BASE, ranked, series.rates)

    @cached_property
    def ends(self) -> dict[str, date]:
        """The last day of each series that ends before the others, when all are there."""
        last = {symbol: max(self.series.of(symbol)) for symbol in self.series.symbols}
        return {symbol: day for symbol, day in last.items() if day != self.last_day}


async def _fetch(journal: Path, console: Console) -> Findings:
    """Serve a sandbox on a free port, log in over that socket, and fetch as `bulk rates` does."""
    last_day = reference_rates().last_day
    async with (
        Sandbox().serve() as address,
        GatewaySession(
            address, access_token=partial(_log_in, address), tenant_id="demo", parse_float=Decimal
        ) as gateway,
    ):
        countries = await gateway.country_data.list_countries()
        found = Findings(group_by_currency(countries), day_of("1y", last_day), last_day)
        facts = {
            "Gateway": f"{address}, a sandbox on this machine",
            "Login": f"as {ACCOUNT}, by the implicit flow; a script plays the browser",
            "Countries": f"{len(countries)}, which use {len(found.countries)} currencies",
            "Range": f"{found.first_day} to {last_day}, the last twelve months that it has",
        }
        print_key_values(console, facts.items())
        plan = Plan([BASE], list(found.countries), found.first_day, last_day)
        with progress(*bar_of(found.tally)) as show:
            await fetch(gateway, plan, found.tally, show, found.take, journal=journal)
    return found


async def _log_in(address: str) -> Token:
    flow = ImplicitFlow(address + AUTHORIZE_PATH, SANDBOX_CLIENT_ID)
    return await login(flow, browser=Visitor(ACCOUNT), show=lambda _: None, timeout=PATIENCE)


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


def make_table(findings: Findings, width: int) -> Table:
    """Make the table of those with rates, at most *width* columns wide if that is 54 or more."""
    room, series = width - OTHER_COLUMNS, findings.series
    rows: list[list[str | Text]] = []
    for symbol in series.symbols:
        rates = list(series.of(symbol).values())
        countries = name_countries(findings.countries.get(symbol, ()), room).ljust(room)
        change = f"{series.change(symbol):+5.1f}"
        change = "  0.0" if change in (" +0.0", " -0.0") else change
        ends = format_rate(rates[0]), format_rate(rates[-1])
        curve = Text(_curve(findings, symbol), "cyan" if series.change(symbol) > 0 else "yellow")
        rows.append([symbol, countries, *ends, change, curve])
    columns = ("", "Used in", "First", "Last", "    %", "")
    if room < FEWEST_FOR_COUNTRIES:
        return Table(columns[:1] + columns[2:], [row[:1] + row[2:] for row in rows])
    return Table(columns, rows)


def name_countries(countries: Sequence[str], room: int) -> str:
    """Name the first country, as far as it fits into *room* columns, and count the others."""
    more = f" and {len(countries) - 1} more" if len(countries) > 1 else ""
    first = "".join(countries[:1])
    return (first if len(first + more) <= room else f"{first[: room - len(more) - 1]}…") + more


def format_rate(rate: Decimal) -> str:
    """Write a rate with four decimals, or two when it is large."""
    return f"{rate:.4f}" if rate < PRECISE_BELOW else f"{rate:.2f}"


def _curve(findings: Findings, symbol: str) -> str:
    """Draw a series over the whole range, or up to its end if that comes before."""
    last_day = findings.ends.get(symbol, findings.last_day)
    end = f" to {last_day}" if symbol in findings.ends else ""
    rates, columns = findings.series.of(symbol), CURVE - len(end)
    return area(resample(rates, findings.first_day, last_day, columns))[0] + end


def _draw(findings: Findings) -> bytes:
    """Draw the chart, with the names of those that rose and fell most."""
    # Imported here, because it takes longer than all the calls.
    from gateway_sdk.cli.output.chart import draw_chart  # noqa: PLC0415

    series = findings.series
    current = [symbol for symbol in series.symbols if symbol not in findings.ends]
    return draw_chart(
        series,
        title=f"What one euro buys, {findings.first_day:%B %Y} to {findings.last_day:%B %Y}",
        subtitle=f"ECB reference rates through the Gateway sandbox: {len(series.symbols)}"
        " currencies, each at 100 on its first day. Up: the euro gained on it.",
        named=list(dict.fromkeys([*current[:NAMED], *current[-NAMED:]])),
    )


def summary(findings: Findings, folder: Path, seconds: float) -> Iterator[KeyValue]:
    """Tell what came, what is missing and why, how long it took, and where the files are."""
    tally, quoted = findings.tally, len(findings.series.symbols)
    yield "Rates", f"{len(findings.rows)} daily rates of {quoted} currencies"
    for symbol, day in findings.ends.items():
        yield "Ended", f"{symbol}: its last rate is of {day}"
    if findings.silent:
        codes = " ".join(sorted(findings.silent))
        yield "No rates", f"{codes}: known to the gateway, but not quoted in this range"
    if unknown := sorted(tally.left_out):
        yield "Not quoted", f"{len(unknown)} currencies, of which the ECB publishes no rates"
        yield "", f"The gateway answers for {unknown[0][1]}{tally.left_out[unknown[0]]}"
    for kind in tally.failures():
        yield "Failed", kind.strip()
    yield "Files", str(folder / FILES[0])
    yield "", str(folder / FILES[1])
    yield "Took", f"{seconds:.1f} s, for {tally.asked + 1} calls and the chart"
