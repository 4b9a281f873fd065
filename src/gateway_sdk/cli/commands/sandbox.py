"""The command `gateway sandbox`."""

import errno
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from gateway_sdk._config import is_loopback
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.output.console import make_console
from gateway_sdk.cli.output.key_values import KeyValue, print_key_values
from gateway_sdk.cli.session import run
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_ACCESS_TOKEN, SANDBOX_CLIENT_ID, Sandbox
from gateway_sdk.sandbox._reference_data import country_list, reference_rates


def sandbox(
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. Any other than this machine's own lets everybody in who"
            " can reach it: the sandbox's token is public."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")
    ] = 8080,
    seed: Annotated[int, typer.Option(help="Repeats the same customers, orders and balances.")] = 0,
) -> None:
    """Run a gateway on this machine: all twelve operations, on real data, in memory.

    Ctrl-C stops it, and what was done to it is forgotten.
    """
    if not is_loopback(host):
        sys.stderr.write(
            f"gateway: warning: everybody who can reach {host} is let in: the token is public\n"
        )
    try:
        run(Sandbox(seed=seed).run(host, port, on_ready=_greet))
    except OSError as error:
        raise CommandError(_why_not(error, host, port), MISUSED) from error
    # Below the terminal's ^C.
    sys.stdout.write("\nStopped.\n")


def _greet(base_url: str) -> None:
    console, settings = make_console(), environment(base_url)
    print_key_values(console, _facts(base_url))
    console.print("\nFor GatewaySession.from_env():")
    _print_commands(console, settings.always)
    console.print("with the token that is ready:")
    _print_commands(console, settings.token)
    console.print("or, instead, with the token of a login:")
    _print_commands(console, settings.login)
    console.print("  gateway login", style="cyan")
    console.print("\nReady; Ctrl-C stops it.", style="bold")


def _facts(base_url: str) -> Iterator[KeyValue]:
    """Tell where it is, what it asks for and what it knows."""
    countries, rates = country_list(), reference_rates()
    left_out = len(countries.incomplete)
    yield "Sandbox", base_url
    yield "Token", SANDBOX_ACCESS_TOKEN
    yield "Countries", str(len(countries.records))
    # Interface: Resources, Country record
    yield "", f"{left_out} are left out, whose sources lack one of the seven fields"
    yield "Rates", f"{len(rates.currencies)} currencies, by the European Central Bank"
    yield "", f"{rates.first_day} to {rates.last_day}"


class Exports(NamedTuple):
    """What to set for `GatewaySession.from_env()`, as NAME=value.

    Attributes:
        always: Whichever way the token comes.
        token: For the token that is ready.
        login: For one that `gateway login` gets.
    """

    always: tuple[str, ...]
    token: tuple[str, ...]
    login: tuple[str, ...]


def environment(base_url: str) -> Exports:
    """Give the settings with which sessions and logins get there from this machine."""
    for everywhere, here in (("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]")):  # noqa: S104 - no bind
        base_url = base_url.replace(f"//{everywhere}:", f"//{here}:")
    return Exports(
        (f"GATEWAY_BASE_URL={base_url}", "GATEWAY_TENANT_ID=demo"),
        (f"GATEWAY_ACCESS_TOKEN={SANDBOX_ACCESS_TOKEN}",),
        (
            f"GATEWAY_AUTH_URL={base_url}{AUTHORIZE_PATH}",
            f"GATEWAY_CLIENT_ID={SANDBOX_CLIENT_ID}",
        ),
    )


def _print_commands(console: Console, settings: Iterable[str]) -> None:
    for setting in settings:
        # They are there to be copied, in one piece.
        console.print(f"  export {setting}", style="cyan", soft_wrap=True)


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken: choose another, or --port 0 for a free one"
    return f"cannot listen on port {port} of {host}: {error.strerror}"
