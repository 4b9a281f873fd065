"""The commands `gateway sandbox` and `gateway demo`, which shows the SDK at one."""

import asyncio
import csv
import signal
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from gateway_sdk._url import is_loopback
from gateway_sdk.auth import ImplicitFlow, login
from gateway_sdk.bulk import export
from gateway_sdk.cli import output
from gateway_sdk.cli.arguments import check_place, option, writing
from gateway_sdk.cli.process import CommandError, Status, printable, say, whole_output
from gateway_sdk.cli.rates import Run, day_of
from gateway_sdk.cli.series import Series, curve, draw_chart, load_matplotlib
from gateway_sdk.sandbox import (
    AUTHORIZE_PATH,
    SANDBOX_ACCESS_TOKEN,
    SANDBOX_CLIENT_ID,
    Faults,
    Sandbox,
    Visitor,
)
from gateway_sdk.sandbox._reference_data import country_list, reference_rates
from gateway_sdk.session import GatewaySession

app = typer.Typer(rich_markup_mode=None)

SETTINGS: Final = f"""
For GatewaySession.from_env():
  export GATEWAY_BASE_URL={{url}}
  export GATEWAY_TENANT_ID=demo
with a token that is valid from the start:
  export GATEWAY_ACCESS_TOKEN={SANDBOX_ACCESS_TOKEN}
or with the token of a login:
  export GATEWAY_AUTH_URL={{url}}{AUTHORIZE_PATH}
  export GATEWAY_CLIENT_ID={SANDBOX_CLIENT_ID}
  gateway login
"""


@app.command()
def sandbox(
    host: Annotated[
        str, option("ADDRESS", "Where to listen. Its token is public: who reaches it can use it.")
    ] = "127.0.0.1",
    port: Annotated[int, option("PORT", "The port; 0 takes a free one.", min=0, max=65535)] = 8080,
    seed: Annotated[int, option("N", "The same seed gives the same data and random faults.")] = 0,
    fault: Annotated[
        list[str] | None, option("FAULT", "Make calls fail, as described above; may be repeated.")
    ] = None,
) -> None:
    """Run a gateway on this machine: all operations, on real data, in memory.

    Each request is a line on standard error. Ctrl-C stops the sandbox and deletes its data.

    A fault is [OPERATION:]KIND[=VALUE][,at=N][,times=N][,rate=P]. Without an operation it is for
    all. at is the number of the first call, times how many calls, rate a probability. The kinds:
    latency=SECONDS, status=CODE, malformed_error=CODE, too_many_requests=SECONDS,
    unavailable=SECONDS, unauthorized, drop_before_read, drop_after_read, cut_body, drip=SECONDS.
    """
    if not host:  # would be every address of the machine
        raise typer.BadParameter("is empty", param_hint="--host")
    faults = Faults(seed=seed)
    for text in fault or ():
        try:
            faults.add(text)
        except ValueError as error:
            raise typer.BadParameter(printable(str(error)), param_hint="--fault") from None
    if not is_loopback(host):
        say(f"gateway: warning: the token is public: whoever can reach {host} can use the sandbox")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what "&" starts ignores Ctrl-C
    try:
        asyncio.run(_serve(Sandbox(seed=seed, faults=faults), host, port))
    except KeyboardInterrupt:
        # Below the terminal's ^C; nothing if there is no standard output.
        print("\nStopped.")  # noqa: T201
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]  # Python adds the address, once more
        problem = f"cannot listen on port {port} of {host}: {reason}"
        advice = "Give another --host, or another --port; 0 takes a free one."
        raise CommandError(f"{problem}\n{advice}") from error


async def _serve(sandbox: Sandbox, host: str, port: int) -> None:
    with suppress(NotImplementedError):  # on Windows, which has no SIGTERM
        # With a handler of its own, any signal wakes the loop, also one that comes as it falls
        # asleep. The first process of a container ignores SIGTERM without one.
        stop = signal.SIGINT
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, signal.raise_signal, stop)
    async with sandbox.serve(host, port, log=say) as base_url:
        _greet(base_url)
        await asyncio.Event().wait()  # until Ctrl-C


def _greet(base_url: str) -> None:
    countries, rates, console = country_list(), reference_rates(), output.make_console()
    with whole_output():  # else its error would be taken for one of the port
        output.print_key_values(
            ("Sandbox", base_url),
            ("Token", SANDBOX_ACCESS_TOKEN),
            # Interface: Resources, Country record
            ("Countries", f"{len(countries.records)}"),
            ("", f"{len(countries.incomplete)} more are left out: a field of them is not known"),
            ("Rates", f"{len(rates.currencies)} currencies, by the European Central Bank"),
            ("", f"{rates.days[0]} to {rates.days[-1]}"),
        )
        # Not wrapped, so that each line can be copied.
        console.print(SETTINGS.format(url=base_url), soft_wrap=True)
        console.print("Ready; Ctrl-C stops it.", style="bold")


BASE: Final = "EUR"
ACCOUNT: Final = "ada@example.com"
LABELLED: Final = 4  # currencies in colour: so many that rose most, and so many that fell most
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
    began, console = time.monotonic(), output.make_console()
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    load_matplotlib(out)  # now, though the chart comes last
    rates_path, chart_path = check_place(out / "rates.csv"), check_place(out / "rates.png")
    heading = "Gateway demo: a year of exchange rates, asked from a gateway"
    console.print(heading, style="bold", end="\n\n")
    # A run that is stopped leaves nothing behind.
    with tempfile.TemporaryDirectory(prefix=".rates-", dir=out) as draft:
        journal = Path(draft) / "rates.db"
        run, users = asyncio.run(_fetch_rates(journal))
        with writing(rates_path, Status.FAILED):
            export(journal, rates_path, rates=True)
    series = _read(rates_path)
    console.print()
    output.show_in_terminal(_table(series, users), console)
    note = f"Units for one {BASE}: a rise means that {BASE} gained. Each curve has its own scale."
    console.print(f"\n{note}", style="dim", end="\n\n")
    symbols, days = list(series.rates), series.days
    with console.status("Drawing the chart"):
        drawn = draw_chart(
            series,
            title=f"What one euro buys, {days[0]:%B %Y} to {days[-1]:%B %Y}",
            subtitle=f"ECB reference rates through the Gateway sandbox: {len(symbols)} currencies,"
            " each at 100 on its first day. Up: the euro gained on it.",
            named=symbols[:LABELLED] + symbols[-LABELLED:],
        )
    with writing(chart_path, Status.FAILED):
        chart_path.write_bytes(drawn)
    count = sum(map(len, series.rates.values()))
    others = len(users.keys() - {*symbols, BASE})
    output.print_key_values(
        ("Rates", f"{count} daily rates of {len(symbols)} currencies"),
        ("No rates", f"{others} currencies, of which the ECB published none in this range"),
        *(("Failed", kind) for kind in run.kinds()),
        ("Files", str(rates_path)),
        ("", str(chart_path)),
        ("Took", f"{time.monotonic() - began:.1f} s, for {run.done + 1} calls and the chart"),
    )
    if run.failures:
        raise CommandError("calls failed that should not have: see above", Status.FAILED)


async def _fetch_rates(journal: Path) -> tuple[Run, dict[str, list[str]]]:
    """Serve a sandbox on a free port, log in over that socket, and fetch as `bulk rates` does."""
    last = reference_rates().days[-1]
    first = day_of("1y", last)
    async with Sandbox().serve() as url:
        flow, visitor = ImplicitFlow(url + AUTHORIZE_PATH, SANDBOX_CLIENT_ID), Visitor(ACCOUNT)
        token = await login(flow, browser=visitor, show=lambda _: None)
        async with GatewaySession(url, access_token=token, tenant_id="demo") as gateway:
            countries = await gateway.country_data.list_countries()
            users: dict[str, list[str]] = defaultdict(list)
            # The code of a currency begins with that of its country, as in USD.
            countries.sort(key=lambda it: it.two_digit_iso_code != f"{it.currency}"[:2])
            for it in countries:
                users[f"{it.currency}"].append(f"{it.country_name}")
            output.print_key_values(
                ("Gateway", f"{url}, a sandbox on this machine"),
                ("Login", f"as {ACCOUNT}, by the implicit flow; a script plays the browser"),
                ("Countries", f"{len(countries)}, which use {len(users)} currencies"),
                ("Range", f"{first} to {last}, the last twelve months that it has"),
            )
            # The gateway answers 404 for the others.
            quoted = sorted(reference_rates().currencies & users.keys())
            run = Run([BASE], quoted, (first, last))
            await run.fetch(gateway, journal=journal)
    return run, users


def _read(path: Path) -> Series:
    """Read the file of rates; the currencies that the base gained most on come first."""
    rates: dict[str, dict[date, Decimal]] = defaultdict(dict)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            rates[row["symbol"]][date.fromisoformat(row["date"])] = Decimal(row["rate"])
    order = sorted(rates, key=Series(BASE, rates).change, reverse=True)
    return Series(BASE, {symbol: rates[symbol] for symbol in order})


def _table(series: Series, users: dict[str, list[str]]) -> output.Table:
    rows: list[list[Any]] = []
    days = series.days
    for symbol, found in series.rates.items():
        rates, change = list(found.values()), series.change(symbol)
        drawn = Text(curve(found, days, CURVE), ROSE if change > 0 else FELL)
        first, *others = users[symbol]
        used_in = first + (f", {len(others)} more" if others else "")
        rows.append([symbol, rates[0], rates[-1], f"{change:+z.1f}", drawn, used_in])
    return output.Table(("", "First", "Last", "%", "", "Used in"), rows)
