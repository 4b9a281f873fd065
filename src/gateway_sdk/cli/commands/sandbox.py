"""The command `gateway sandbox`."""

import errno
import sys
import time
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Final

import typer

from gateway_sdk._config import is_loopback
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.output.console import make_console, print_key_values
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
        say(f"gateway: warning: everybody who can reach {host} is let in: the token is public")
    try:
        run(served.run(host, port, on_ready=_greet))
    except OSError as error:
        problem = f"cannot listen on port {port} of {host}: {error.strerror}"
        if error.errno == errno.EADDRINUSE:
            problem = f"port {port} of {host} is taken: choose another, or --port 0 for a free one"
        raise CommandError(problem, MISUSED) from error
    # Below the terminal's ^C.
    sys.stdout.write("\nStopped.\n")


_VALUES: Final[dict[str, tuple[str, Callable[[str], float]]]] = {
    "latency": ("seconds", float),
    "drip": ("delay", float),
    "status": ("status", int),
    "malformed_error": ("status", int),
    "too_many_requests": ("retry_after", int),
    "unavailable": ("retry_after", int),
}
_NEED_A_VALUE: Final = ("latency", "drip", "status", "malformed_error")
_KINDS: Final = ("unauthorized", "drop_before_read", "drop_after_read", "cut_body", *_VALUES)
_RULES: Final[dict[str, Callable[[str], float]]] = {"at": int, "times": int, "rate": float}


def add_fault(faults: Faults, text: str) -> None:
    """Add what an option says, as `Faults` has it."""
    first, *rules = text.split(",")
    operation, _, kind = first.rpartition(":")
    try:
        made, where = _fault(*kind.partition("=")), dict(map(_rule, rules))
        if operation:
            faults.on(operation, made, **where)
        else:
            faults.anywhere(made, **where)
    except ValueError as error:
        raise CommandError(
            f"--fault {printable(text)} is no fault: {printable(str(error))}\n"
            "`gateway sandbox --help` shows how one is written.",
            MISUSED,
        ) from None


def _fault(name: str, equals: str, value: str) -> Fault:
    if name not in _KINDS:
        raise ValueError(f"the kinds are {', '.join(_KINDS)}")
    if equals and name not in _VALUES:
        raise ValueError(f"{name} takes no value")
    if not equals and name in _NEED_A_VALUE:
        raise ValueError(f"{name} needs a number: write {name}=...")
    argument, read = _VALUES.get(name, ("", float))
    fault: Fault = getattr(Fault, name)(**{argument: _number(value, read)} if equals else {})
    return fault


def _rule(text: str) -> tuple[str, Any]:
    key, _, number = text.partition("=")
    if key not in _RULES:
        raise ValueError(f"{text!r} is not at=N, times=N or rate=0.1")
    return key, _number(number, _RULES[key])


def _number(text: str, read: Callable[[str], float]) -> float:
    try:
        return read(text)
    except ValueError:
        wanted = "a whole number" if read is int else "a number"
        raise ValueError(f"{text!r} is not {wanted}") from None


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
    """Tell where it is, what it knows, and what to set."""
    countries, rates, console = country_list(), reference_rates(), make_console()
    facts = [
        ("Sandbox", base_url),
        ("Token", SANDBOX_ACCESS_TOKEN),
        ("Countries", str(len(countries.records))),
        # Interface: Resources, Country record
        (
            "",
            f"{len(countries.incomplete)} are left out, whose sources lack one of the seven fields",
        ),
        ("Rates", f"{len(rates.currencies)} currencies, by the European Central Bank"),
        ("", f"{rates.first_day} to {rates.last_day}"),
    ]
    print_key_values(console, facts)
    console.print()
    for heading, commands in environment(base_url).items():
        console.print(heading)
        for command in commands:
            # They are there to be copied, in one piece.
            console.print(f"  {command}", style="cyan", soft_wrap=True)
    console.print("\nReady; Ctrl-C stops it.", style="bold")


def environment(base_url: str) -> dict[str, Iterable[str]]:
    """Give the commands with which sessions and logins get there from this machine."""
    for everywhere, here in (("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]")):  # noqa: S104 - no bind
        base_url = base_url.replace(f"//{everywhere}:", f"//{here}:")
    login = f"export GATEWAY_AUTH_URL={base_url}{AUTHORIZE_PATH}"
    return {
        "For GatewaySession.from_env():": (
            f"export GATEWAY_BASE_URL={base_url}",
            "export GATEWAY_TENANT_ID=demo",
        ),
        "with the token that is ready:": (f"export GATEWAY_ACCESS_TOKEN={SANDBOX_ACCESS_TOKEN}",),
        "or, instead, with the token of a login:": (
            login,
            f"export GATEWAY_CLIENT_ID={SANDBOX_CLIENT_ID}",
            "gateway login",
        ),
    }
