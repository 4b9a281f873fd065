"""The typer app: its options, its commands, and how an error leaves it.

A command is a package of its own. Its `command.py` is a signature with help, light to import; what
it does is imported when it runs. It is registered at the end of this file.
"""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gateway_sdk._version import __version__
from gateway_sdk.cli.console import tolerate_any_encoding
from gateway_sdk.cli.demo.command import demo
from gateway_sdk.cli.failure import CommandError, explain
from gateway_sdk.cli.login.command import login
from gateway_sdk.cli.logout.command import logout
from gateway_sdk.cli.sandbox.command import sandbox
from gateway_sdk.cli.status.command import status
from gateway_sdk.errors import GatewayError


class _Group(TyperGroup):
    """The commands, none of which greets its user with a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for; --debug lets its errors through as they are."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            # On a line of its own, below the terminal's ^C.
            sys.stderr.write("\ngateway: stopped by Ctrl-C\n")
            raise
        except (CommandError, GatewayError) as error:
            if ctx.params["debug"]:
                raise
            failure = explain(error) if isinstance(error, GatewayError) else error
        sys.stderr.write(f"gateway: {failure}\n")
        raise typer.Exit(failure.status)


app = typer.Typer(
    cls=_Group,
    add_completion=False,
    no_args_is_help=True,
    # The only mode that sets the paragraphs of a docstring anew.
    rich_markup_mode="markdown",
    # A bug shows as Python's own traceback: rich's would print local variables, tokens among them.
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's way to call it
    if wanted:
        sys.stdout.write(f"gateway-sdk {__version__}\n")
        raise typer.Exit


@app.callback()
def gateway(
    *,
    debug: Annotated[  # noqa: ARG001 - read when an error gets there
        bool, typer.Option("--debug", help="Show errors with a traceback.")
    ] = False,
    version: Annotated[  # noqa: ARG001 - its callback has done it all
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Use the Gateway Service from the command line.

    New here? `gateway demo` shows the whole SDK at work and needs nothing but this machine.
    """
    tolerate_any_encoding()


app.command()(demo)
app.command()(sandbox)
app.command()(login)
app.command()(status)
app.command()(logout)
