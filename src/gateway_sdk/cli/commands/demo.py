"""The command `gateway demo`: a login, the countries, a bulk run, a table and a chart."""

import asyncio
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from gateway_sdk.auth import ImplicitFlow, login
from gateway_sdk.bulk import BulkResult, export
from gateway_sdk.cli import output
from gateway_sdk.cli.arguments import day_of, option
from gateway_sdk.cli.commands.rates import Run
from gateway_sdk.cli.files import cannot_write, check_place, make_folder, write_file
from gateway_sdk.cli.process import CommandError, Status, require
from gateway_sdk.cli.series import Series, area, resample, rows_of, shortest
from gateway_sdk.models import Country
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Sandbox, Visitor
from gateway_sdk.sandbox._reference_data import reference_rates
from gateway_sdk.session import GatewaySession

app = typer.Typer(rich_markup_mode=None)

BASE: Final = "EUR"
ACCOUNT: Final = "ada@example.com"
LOGIN_TIMEOUT: Final = 30.0  # seconds
LABELLED: Final = 4
"""Currencies with a label in the chart: so many that rose most, and so many that fell most."""
CURVE: Final = 18  # columns of a curve: three weeks each
ROSE, FELL = "dodger_blue2", "dark_orange3"
"""Readable on black and on white, and different for colour-blind readers."""


@app.command()
def demo(
    out: Annotated[
        Path, option("FOLDER", "The folder for rates.csv and rates.png, which are replaced.")
    ] = Path("gateway-demo"),
) -> None:
    """Show the whole SDK at work: a year of exchange rates for every country's currency.

    Starts a sandbox, logs in, lists the countries, fetches the rates of all currencies against the
    euro with many calls at a time, and shows them as a table and a chart. It takes some seconds and
    needs no network.
    """
    # The chart comes last, so what it needs is looked for first.
    require("matplotlib")
    began, console = time.monotonic(), output.make_console()
    make_folder(out)
    rates_path, chart_path = out / "rates.csv", out / "rates.png"
    check_place(rates_path)
    check_place(chart_path)
    heading = "Gateway demo: a year of exchange rates, asked from a gateway"
    console.print(heading, style="bold", end="\n\n")
    # A run that is stopped leaves nothing behind.
    with tempfile.TemporaryDirectory() as draft:
        journal = Path(draft) / "rates.db"
        findings = asyncio.run(_fetch(journal))
        try:
            export(journal, rates_path, rates=True)
        except OSError as error:
            raise cannot_write(rates_path, error) from None
    console.print()
    console.out(output.to_terminal(make_table(findings), console)[0], highlight=False)
    note = f"Units for one {BASE}: a rise means that {BASE} gained. Each curve has its own scale."
    console.print(note, style="dim", end="\n\n")
    with console.status("Drawing the chart"):
        write_file(chart_path, _draw(findings))
    took = f"{time.monotonic() - began:.1f} s, for {findings.run.asked + 1} calls and the chart"
    files = [("Files", str(rates_path)), ("", str(chart_path))]
    output.print_key_values([*summary(findings), *files, ("Took", took)])
    if findings.run.failed:
        raise CommandError("calls failed that should not have: see above", Status.FAILED)


@dataclass
class Findings:
    """What came back: the countries of each currency in words, and the rates of those known."""

    users: dict[str, str]
    days: tuple[date, date]
    run: Run
    rates: dict[str, dict[date, Decimal]] = field(default_factory=dict)

    def take(self, result: BulkResult[Any, Any]) -> None:
        """Keep the rates of a result."""
        if result.error is None:
            rows = rows_of(result.value, BASE) or ()
            self.rates[result.item.symbols] = {row.date: row.rate for row in rows}

    @cached_property
    def series(self) -> Series:
        """All rates; the currencies that the base gained most on come first."""
        series = Series(BASE, {symbol: found for symbol, found in self.rates.items() if found})
        order = sorted(series.rates, key=series.change, reverse=True)
        return Series(BASE, {symbol: series.rates[symbol] for symbol in order})


async def _fetch(journal: Path) -> Findings:
    """Serve a sandbox on a free port, log in over that socket, and fetch as `bulk rates` does."""
    last = reference_rates().last_day
    async with Sandbox().serve() as url:
        flow, visitor = ImplicitFlow(url + AUTHORIZE_PATH, SANDBOX_CLIENT_ID), Visitor(ACCOUNT)
        token = await login(flow, browser=visitor, show=lambda _: None, timeout=LOGIN_TIMEOUT)
        settings: Any = {"access_token": token, "tenant_id": "demo", "parse_float": shortest}
        async with GatewaySession(url, **settings) as gateway:
            countries = await gateway.country_data.list_countries()
            users, days = users_of(countries), (day_of("1y", last), last)
            # The gateway answers 404 for the others.
            quoted = sorted(users.keys() & reference_rates().currencies)
            found = Findings(users, days, Run([BASE], quoted, days))
            facts = {
                "Gateway": f"{url}, a sandbox on this machine",
                "Login": f"as {ACCOUNT}, by the implicit flow; a script plays the browser",
                "Countries": f"{len(countries)}, which use {len(users)} currencies",
                "Range": f"{days[0]} to {last}, the last twelve months that it has",
            }
            output.print_key_values(facts.items())
            await found.run.fetch(gateway, found.take, journal=journal)
    return found


def users_of(countries: Iterable[Country]) -> dict[str, str]:
    """Name one country of each currency, by the currency's code, and count the others."""
    users: defaultdict[str, list[str]] = defaultdict(list)
    known = [(it.country_name, it.currency, it.two_digit_iso_code) for it in countries]
    for name, currency, code in sorted(tuple(map(str, texts)) for texts in known):
        # An ISO 4217 code begins with its country's ISO 3166 code, as in USD.
        names = users[currency]
        names.insert(0 if code == currency[:2] else len(names), name)
    return {
        code: first + (f", {len(others)} more" if others else "")
        for code, (first, *others) in users.items()
    }


def make_table(findings: Findings) -> output.Table:
    """Make the table of the currencies that have rates."""
    series = findings.series
    rows: list[list[Any]] = []
    for symbol, found in series.rates.items():
        rates, change = list(found.values()), series.change(symbol)
        curve = area(resample(found, *findings.days, CURVE))[0]
        drawn = Text(curve, ROSE if change > 0 else FELL)
        users = findings.users.get(symbol, "")
        rows.append([symbol, rates[0], rates[-1], f"{change:+z.1f}", drawn, users])
    return output.Table(("", "First", "Last", "%", "", "Used in"), rows)


def _draw(findings: Findings) -> bytes:
    # Imported here, because it takes longer than all the calls.
    from gateway_sdk.cli.chart import draw_chart  # noqa: PLC0415

    series, (first, last) = findings.series, findings.days
    symbols = list(series.rates)
    return draw_chart(
        series,
        title=f"What one euro buys, {first:%B %Y} to {last:%B %Y}",
        subtitle=f"ECB reference rates through the Gateway sandbox: {len(series.rates)}"
        " currencies, each at 100 on its first day. Up: the euro gained on it.",
        named=list(dict.fromkeys([*symbols[:LABELLED], *symbols[-LABELLED:]])),
    )


def summary(findings: Findings) -> Iterator[output.KeyValue]:
    """Say what came, and what is missing and why."""
    run, rates = findings.run, findings.rates
    count = sum(map(len, rates.values()))
    yield "Rates", f"{count} daily rates of {len(findings.series.rates)} currencies"
    for symbol, found in findings.series.rates.items():
        if max(found) < findings.days[1]:
            yield "Ended", f"{symbol}: its last rate is of {max(found)}"
    others = len(findings.users.keys() - findings.series.rates.keys() - {BASE})
    yield "No rates", f"{others} currencies, of which the ECB published none in this range"
    for kind in run.failures():
        yield "Failed", kind.strip()
