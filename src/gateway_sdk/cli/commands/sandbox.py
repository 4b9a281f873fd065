"""The command `gateway sandbox`."""

import asyncio
import errno
from typing import Annotated, Final

import typer

from gateway_sdk._url import is_loopback
from gateway_sdk.cli.arguments import option
from gateway_sdk.cli.output import make_console, print_key_values
from gateway_sdk.cli.process import CommandError, printable, say, whole_output
from gateway_sdk.sandbox import (
    AUTHORIZE_PATH,
    SANDBOX_ACCESS_TOKEN,
    SANDBOX_CLIENT_ID,
    Faults,
    Sandbox,
)
from gateway_sdk.sandbox._reference_data import country_list, reference_rates

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
    """Run a gateway on this machine: all twelve operations, on real data, in memory.

    Each request is a line on standard error. Ctrl-C stops the sandbox and deletes its data.

    A fault is [OPERATION:]KIND[=VALUE][,at=N][,times=N][,rate=P]. Without an operation it is for
    all. at is the number of the first call, times how many calls, rate a probability. The kinds:
    latency=SECONDS, status=CODE, malformed_error=CODE, too_many_requests=SECONDS,
    unavailable=SECONDS, unauthorized, drop_before_read, drop_after_read, cut_body, drip=SECONDS.
    """
    faults = Faults(seed=seed)
    for text in fault or ():
        try:
            faults.add(text)
        except ValueError as error:
            raise CommandError(
                f"--fault {printable(text)} is wrong: {printable(str(error))}\n"
                "`gateway sandbox --help` shows how a fault is written."
            ) from None
    if not is_loopback(host):
        say(f"gateway: warning: the token is public: whoever can reach {host} can use the sandbox")
    try:
        asyncio.run(Sandbox(seed=seed, faults=faults).run(host, port, on_ready=_greet, log=say))
    except OSError as error:
        problem = f"cannot listen on port {port} of {host}: {error.strerror}"
        advice = "Give another --host or --port."
        if error.errno == errno.EADDRINUSE:
            problem = f"port {port} of {host} is in use"
            advice = "Give another --port; 0 takes a free one."
        raise CommandError(f"{problem}\n{advice}") from error
    # Below the terminal's ^C; nothing if there is no standard output.
    print("\nStopped.")  # noqa: T201


def _greet(base_url: str) -> None:
    countries, rates, console = country_list(), reference_rates(), make_console()
    facts = [
        ("Sandbox", base_url),
        ("Token", SANDBOX_ACCESS_TOKEN),
        # Interface: Resources, Country record
        ("Countries", f"{len(countries.records)}"),
        ("", f"{len(countries.incomplete)} more are left out: a field of them is not known"),
        ("Rates", f"{len(rates.currencies)} currencies, by the European Central Bank"),
        ("", f"{rates.days[0]} to {rates.last_day}"),
    ]
    with whole_output():  # else its error would be taken for one of the port
        print_key_values(facts)
        # Not wrapped, so that each line can be copied.
        console.print(SETTINGS.format(url=base_url), soft_wrap=True)
        console.print("Ready; Ctrl-C stops it.", style="bold")
