"""The typer app: its options, its commands, and how an error leaves it.

A command is a package of its own. Its `command.py` is a signature with help, light to import; what
it does is imported when it runs. It is registered at the end of this file.
"""

import sys
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from gateway_sdk._version import __version__
from gateway_sdk.cli import examples
from gateway_sdk.cli.bulk import command as bulk
from gateway_sdk.cli.console import tolerate_any_encoding
from gateway_sdk.cli.countries.command import countries
from gateway_sdk.cli.customer import command as customer
from gateway_sdk.cli.demo.command import demo
from gateway_sdk.cli.document import command as document
from gateway_sdk.cli.failure import MISUSED, CommandError, explain
from gateway_sdk.cli.login.command import login
from gateway_sdk.cli.logout.command import logout
from gateway_sdk.cli.output.stdout import OutputError, say, whole_output
from gateway_sdk.cli.rates.command import rates
from gateway_sdk.cli.sandbox.command import sandbox
from gateway_sdk.cli.status.command import status
from gateway_sdk.cli.wallet import command as wallet
from gateway_sdk.cli.webhook.command import webhook
from gateway_sdk.cli.words import quote
from gateway_sdk.errors import GatewayError

ANYWHERE: Final = frozenset({"--debug", "--sandbox"})
"""Options for every command, which may stand before it as well as behind it."""

WITHOUT_SANDBOX: Final = frozenset({"demo", "sandbox", "login", "status", "logout"})
"""Commands that call no gateway, or bring their own."""


class _Group(TyperGroup):
    """The commands, none of which greets its user with a traceback."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line, and say so if standard output takes no more."""
        try:
            with whole_output():
                return super().main(*args, **extra)
        except OutputError as error:
            sys.stderr.write(f"gateway: {error}\n")
            raise SystemExit(error.status) from None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the options for every command wherever they stand, but not behind a "--"."""
        end = args.index("--") if "--" in args else len(args)
        anywhere = [word for word in args[:end] if word in ANYWHERE]
        others = [word for word in args[:end] if word not in ANYWHERE]
        rest: list[str] = super().parse_args(ctx, [*anywhere, *others, *args[end:]])
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for; --debug lets its errors through as they are."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            # On a line of its own, below the terminal's ^C.
            sys.stderr.write("\ngateway: stopped by Ctrl-C\n")
            sys.stderr.write(f"{stop}\n" if str(stop) else "")
            raise
        except OutputError:
            raise  # main says it, for it may also happen to --help
        except (CommandError, GatewayError) as error:
            if ctx.params["debug"]:
                if isinstance(error, GatewayError):
                    say(f"gateway: {error}{quote(error, personal=True)}")
                raise
            failure = explain(error) if isinstance(error, GatewayError) else error
        sys.stderr.write(f"gateway: {failure}\n")
        raise typer.Exit(failure.status)


app = typer.Typer(
    cls=_Group,
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
    ctx: typer.Context,
    *,
    sandbox: Annotated[
        bool,
        typer.Option(
            "--sandbox",
            help="Ask a gateway made for this one command, on real data and in memory, in place of"
            " the one in the environment. It may stand anywhere.",
        ),
    ] = False,
    debug: Annotated[  # noqa: ARG001 - read when an error gets there
        bool, typer.Option("--debug", help="Show errors with a traceback. It may stand anywhere.")
    ] = False,
    version: Annotated[  # noqa: ARG001 - its callback has done it all
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Use the Gateway Service from the command line.

    New here? `gateway demo` shows the whole SDK at work, and with `--sandbox` every command works
    without a gateway. Others find theirs in GATEWAY_BASE_URL, and the access token in
    GATEWAY_ACCESS_TOKEN or where `gateway login` left it.
    """
    tolerate_any_encoding()
    if sandbox and ctx.invoked_subcommand in WITHOUT_SANDBOX:
        raise CommandError(
            f"`gateway {ctx.invoked_subcommand}` does not take --sandbox: it asks no gateway, or"
            " brings its own",
            MISUSED,
        )


ASKING: Final = "Ask a gateway"
LOGGING_IN: Final = "Access token"
TRYING: Final = "Try it"


def _add_group(name: str, summary: str) -> typer.Typer:
    """Add a group of commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help=summary)
    app.add_typer(group, name=name, rich_help_panel=ASKING)
    return group


app.command(epilog=examples.COUNTRIES, rich_help_panel=ASKING)(countries)
app.command(epilog=examples.RATES, rich_help_panel=ASKING)(rates)

_bulk = _add_group("bulk", "Fetch much at once, and go on where a run stopped.")
_bulk.command(epilog=examples.BULK_RATES)(bulk.rates)

_customer = _add_group("customer", "Create customers, and revise them.")
_customer.command(epilog=examples.CUSTOMER_CREATE)(customer.create)
_customer.command(epilog=examples.CUSTOMER_REVISE)(customer.revise)

_wallet = _add_group("wallet", "Look at orders and balances, and cancel an order.")
_wallet.command(epilog=examples.WALLET_ORDERS)(wallet.orders)
_wallet.command(epilog=examples.WALLET_HISTORY)(wallet.history)
_wallet.command(epilog=examples.WALLET_BALANCE)(wallet.balance)
_wallet.command(epilog=examples.WALLET_CANCEL)(wallet.cancel)

_document = _add_group("document", "Upload documents, update them, change their status.")
_document.command(epilog=examples.DOCUMENT_UPLOAD)(document.upload)
_document.command(epilog=examples.DOCUMENT_UPDATE)(document.update)
_document.command(epilog=examples.DOCUMENT_STATUS)(document.status)

app.command(epilog=examples.WEBHOOK, rich_help_panel=ASKING)(webhook)
app.command(rich_help_panel=TRYING)(demo)
app.command(rich_help_panel=TRYING)(sandbox)
app.command(rich_help_panel=LOGGING_IN)(login)
app.command(rich_help_panel=LOGGING_IN)(status)
app.command(rich_help_panel=LOGGING_IN)(logout)
