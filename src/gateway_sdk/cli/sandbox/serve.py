"""Running the sandbox in the foreground."""

import errno
import sys
from collections.abc import Iterable

from rich.console import Console

from gateway_sdk._config import is_loopback
from gateway_sdk.cli.console import make_console
from gateway_sdk.cli.facts import print_facts
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.run import run
from gateway_sdk.cli.sandbox.greeting import environment, greeting
from gateway_sdk.sandbox import Sandbox


def serve(host: str, port: int, seed: int) -> None:
    """Serve until SIGINT or SIGTERM.

    Raises:
        CommandError: the address cannot be had; the message says what to do.
    """
    if not is_loopback(host):
        sys.stderr.write(
            f"gateway: warning: whoever can reach {host} is let in: the token is public\n"
        )
    try:
        run(Sandbox(seed=seed).run(host, port, on_ready=_greet))
    except OSError as error:
        raise CommandError(_why_not(error, host, port), MISUSED) from error
    # Below the terminal's ^C.
    sys.stdout.write("\nStopped.\n")


def _greet(base_url: str) -> None:
    console = make_console()
    print_facts(console, greeting(base_url))
    settings = environment(base_url)
    console.print("\nFor GatewaySession.from_env():")
    _print_commands(console, settings.always)
    console.print("with the token that is ready:")
    _print_commands(console, settings.token)
    console.print("or, instead, with the token of a login:")
    _print_commands(console, settings.login)
    console.print("  gateway login", style="cyan")
    console.print("\nReady; Ctrl-C stops it.", style="bold")


def _print_commands(console: Console, settings: Iterable[str]) -> None:
    for setting in settings:
        # They are there to be copied, in one piece.
        console.print(f"  export {setting}", style="cyan", soft_wrap=True)


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is taken: choose another, or --port 0 for a free one"
    return f"cannot listen on port {port} of {host}: {error.strerror}"
