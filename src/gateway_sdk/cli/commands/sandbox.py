"""The command `gateway sandbox`."""

import errno
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.console import Console

from gateway_sdk._config import is_loopback
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.output.console import make_console
from gateway_sdk.cli.output.key_values import KeyValue, print_key_values
from gateway_sdk.cli.output.stdout import say
from gateway_sdk.cli.output.values import printable
from gateway_sdk.cli.session import run
from gateway_sdk.sandbox import (
    AUTHORIZE_PATH,
    SANDBOX_ACCESS_TOKEN,
    SANDBOX_CLIENT_ID,
    Fault,
    Faults,
    Sandbox,
)
from gateway_sdk.sandbox._reference_data import country_list, reference_rates


def sandbox(
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8080,
    seed: int = 0,
    fault: list[str] | None = None,
) -> None:
    """Run a gateway on this machine: all twelve operations, on real data, in memory.

    Each request is told on standard error. Ctrl-C stops it, and what was done to it is forgotten.

    A fault is [OPERATION:]KIND[=VALUE][,at=N][,times=N][,rate=0.1], at one operation or at all. at
    is the first call that it happens at, times the number of calls, rate a probability. The kinds:
    latency=SECONDS, status=CODE, malformed_error=CODE, too_many_requests=SECONDS,
    unavailable=SECONDS, unauthorized, drop_before_read, drop_after_read, cut_body, drip=SECONDS.

    Args:
        host (ADDRESS): The address to listen on. Any other than this machine's own lets everybody
            in who can reach it: the sandbox's token is public.
        port (PORT): The port to listen on; 0 takes a free one.
        seed (N): Repeats the same customers, orders, balances and choices of faults.
        fault (FAULT): Misbehave: see above. May be given several times.
    """
    faults = Faults(seed=seed)
    for text in fault or ():
        add_fault(faults, text)
    served = Sandbox(seed=seed, faults=faults)
    served.app = telling(served.app)
    if not is_loopback(host):
        sys.stderr.write(
            f"gateway: warning: everybody who can reach {host} is let in: the token is public\n"
        )
    try:
        run(served.run(host, port, on_ready=_greet))
    except OSError as error:
        raise CommandError(_why_not(error, host, port), MISUSED) from error
    # Below the terminal's ^C.
    sys.stdout.write("\nStopped.\n")


_WITH_VALUE: Final[Mapping[str, Callable[[float], Fault]]] = {
    "latency": Fault.latency,
    "drip": Fault.drip,
    "status": lambda value: Fault.status(int(value)),
    "malformed_error": lambda value: Fault.malformed_error(int(value)),
    "too_many_requests": lambda value: Fault.too_many_requests(retry_after=int(value)),
    "unavailable": lambda value: Fault.unavailable(retry_after=int(value)),
}
_ALONE: Final[Mapping[str, Callable[[], Fault]]] = {
    "too_many_requests": Fault.too_many_requests,
    "unavailable": Fault.unavailable,
    "unauthorized": Fault.unauthorized,
    "drop_before_read": Fault.drop_before_read,
    "drop_after_read": Fault.drop_after_read,
    "cut_body": Fault.cut_body,
}
_RULES: Final[Mapping[str, Callable[[str], float]]] = {"at": int, "times": int, "rate": float}


def add_fault(faults: Faults, text: str) -> None:
    """Add what an option says, as `Faults` has it."""
    first, *rules = text.split(",")
    operation, _, kind = first.rpartition(":")
    name, equals, value = kind.partition("=")
    try:
        made = _WITH_VALUE[name](float(value)) if equals else _ALONE[name]()
        given = dict(rule.split("=") for rule in rules)
        where: dict[str, Any] = {key: _RULES[key](number) for key, number in given.items()}
        if operation:
            faults.on(operation, made, **where)
        else:
            faults.anywhere(made, **where)
    except (KeyError, ValueError, OverflowError) as error:
        raise CommandError(
            f"--fault {printable(text)} is no fault: {printable(str(error))}\n"
            "`gateway sandbox --help` shows how one is written.",
            MISUSED,
        ) from None


def telling(app: Any) -> Any:
    """Tell of each request, and of the status that it got, on standard error."""

    async def told(scope: Any, receive: Any, send: Any) -> None:
        status = "no reply"

        async def note(message: Any) -> None:
            nonlocal status
            status = str(message.get("status", status))
            await send(message)

        began = time.monotonic()
        try:
            await app(scope, receive, note)
        finally:
            seconds = time.monotonic() - began
            path = printable(scope.get("path", ""))
            say(f"{scope.get('method', '')} {path}: {status}, {1000 * seconds:.0f} ms")

    return told


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
