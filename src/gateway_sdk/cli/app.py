"""The command line: its options, the table of its commands, and how an error leaves it.

A command is a function in `commands/`, whose module is imported when the command is used: neither
`--version` nor `--help` waits for the SDK.
"""

import sys
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from gateway_sdk._version import __version__
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.output.stdout import OutputError, say, tolerate_any_encoding, whole_output

ASKING: Final = "Ask a gateway"
LOGGING_IN: Final = "Access token"
TRYING: Final = "Try it"

SWITCHES: Final = frozenset({"--debug", "--sandbox", "--verbose", "-v"})
VALUES: Final = frozenset({"--base-url", "--tenant", "--profile"})
"""Options for every command, which may stand before it as well as behind it."""

WITHOUT_SANDBOX: Final = frozenset({"demo", "sandbox", "login", "status", "logout", "profiles"})
"""Commands that call no gateway, or bring their own."""


class _Entry(NamedTuple):
    """A command, or a group of them.

    Attributes:
        panel: Where the help lists it.
        summary: The first line of its docstring; of a group the help.
        members: The commands of a group.
        module: Where the function is; by default in the module of its name.
    """

    panel: str
    summary: str
    members: tuple[str, ...] = ()
    module: str = ""


COMMANDS: Final = {
    "countries": _Entry(
        ASKING, "List the countries of the world, with their codes and currencies."
    ),
    "rates": _Entry(ASKING, "Fetch the exchange rates of currencies against another, day by day."),
    "bulk": _Entry(ASKING, "Fetch much at once, and go on where a run stopped.", ("rates",)),
    "customer": _Entry(
        ASKING, "Create customers, and revise them.", ("create", "example", "revise")
    ),
    "wallet": _Entry(
        ASKING,
        "Look at orders and balances, and cancel an order.",
        ("orders", "history", "balance", "cancel"),
    ),
    "document": _Entry(
        ASKING,
        "Upload documents, update them, change their status.",
        ("upload", "update", "status"),
    ),
    "webhook": _Entry(
        ASKING,
        "Call the KYC webhook, until the gateway acknowledges it; there is no reply to print.",
    ),
    "demo": _Entry(
        TRYING,
        "Show the whole SDK at work: a year of exchange rates for every country's currency.",
    ),
    "sandbox": _Entry(
        TRYING, "Run a gateway on this machine: all twelve operations, on real data, in memory."
    ),
    "login": _Entry(LOGGING_IN, "Log in with a browser, and keep the access token for programs."),
    "status": _Entry(
        LOGGING_IN, "Show which settings are in force, where each comes from, and the access token."
    ),
    "logout": _Entry(
        LOGGING_IN, "Delete the access token that `gateway login` left.", module="login"
    ),
    "profiles": _Entry(
        LOGGING_IN, "List the gateways that `gateway login` has remembered.", module="status"
    ),
}


def _make_app(summary: str | None = None) -> typer.Typer:
    return typer.Typer(
        help=summary,
        no_args_is_help=summary is not None,
        add_completion=False,
        # rich's help would take three times as long as everything else that --help imports.
        rich_markup_mode=None,
    )


def _no_type(**_: Any) -> str:
    """Stand in for a type such as "<str>", which says less than the name of the argument."""
    return ""


def _load(name: str) -> Any:
    """Import a command or a group, and make what typer runs."""
    # Imported here, because the help of the whole does without it.
    from gateway_sdk.cli.examples import epilog_of  # noqa: PLC0415

    entry = COMMANDS[name]
    module = import_module(f"gateway_sdk.cli.commands.{entry.module or name}")
    made = _make_app(entry.summary if entry.members else None)
    for member in entry.members or (name,):
        words = f"{name} {member}" if entry.members else name
        made.command(member, epilog=epilog_of(words))(getattr(module, member))
    if entry.members:
        made.callback()(lambda: None)  # else typer makes no group of a single command
    command: Any = typer.main.get_command(made)
    command.name = name
    for used in getattr(command, "commands", {name: command}).values():
        for argument in used.params:
            argument.display_type_rich = _no_type
    return command


class _Group(TyperGroup):
    """The commands, of which only the one that is used is imported; and their errors in words."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line, and say so if standard output takes no more."""
        try:
            with whole_output():
                return super().main(*args, **extra)
        except OutputError as error:
            sys.stderr.write(f"gateway: {error}\n")
            raise SystemExit(error.status) from None

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        return [*super().list_commands(ctx), *COMMANDS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return what the help and completion show of a command."""
        if cmd_name not in COMMANDS or cmd_name in self.commands:
            return super().get_command(ctx, cmd_name)
        entry = COMMANDS[cmd_name]
        return TyperCommand(cmd_name, help=entry.summary)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - click's way
        """List the commands by what they are for."""
        for panel in (ASKING, TRYING, LOGGING_IN):
            with formatter.section(panel):
                formatter.write_dl(
                    [
                        (name, entry.summary)
                        for name, entry in COMMANDS.items()
                        if entry.panel == panel
                    ]
                )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command that is used, and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS and name not in self.commands:
            command = _load(name)
        return name, command, rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the options for every command wherever they stand, but not behind a "--"."""
        rest: list[str] = super().parse_args(ctx, _to_the_front(args))
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for; --debug lets its errors through as they are."""
        # Imported here: it needs the SDK, and so does whatever is run.
        from gateway_sdk.cli.advice import explain  # noqa: PLC0415
        from gateway_sdk.cli.redact import quote  # noqa: PLC0415
        from gateway_sdk.errors import GatewayError  # noqa: PLC0415

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


def _to_the_front(args: list[str]) -> list[str]:
    """Move the options for every command to the front, each with its value."""
    end = args.index("--") if "--" in args else len(args)
    words = iter(args[:end])
    front: list[str] = []
    rest: list[str] = []
    for word in words:
        name, equals, _ = word.partition("=")
        if word in SWITCHES or (name in VALUES and equals):
            front.append(word)
        elif word in VALUES:
            front += [word, *(value for value in [next(words, None)] if value is not None)]
        else:
            rest.append(word)
    return [*front, *rest, *args[end:]]


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
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
    base_url: Annotated[  # noqa: ARG001 - read by the command, as those that follow
        str | None, typer.Option(metavar="URL", help="The gateway's address.")
    ] = None,
    tenant: Annotated[  # noqa: ARG001
        str | None, typer.Option(metavar="ID", help="The tenant.")
    ] = None,
    profile: Annotated[  # noqa: ARG001
        str | None,
        typer.Option(metavar="NAME", help="Take the gateway that `gateway login` remembered so."),
    ] = None,
    sandbox: Annotated[
        bool,
        typer.Option(
            "--sandbox", help="Ask a gateway made for this one command, on real data and in memory."
        ),
    ] = False,
    verbose: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--verbose",
            "-v",
            envvar="GATEWAY_LOG",
            help="Tell on standard error what goes over the wire, without any value or secret.",
        ),
    ] = False,
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

    New here? `gateway demo` shows the whole SDK at work, and with `--sandbox` every command works
    without a gateway. Others find theirs in GATEWAY_BASE_URL, and the access token in
    GATEWAY_ACCESS_TOKEN or where `gateway login` left it. These options may stand behind a command
    as well.
    """
    tolerate_any_encoding()
    if sandbox and ctx.invoked_subcommand in WITHOUT_SANDBOX:
        raise CommandError(
            f"`gateway {ctx.invoked_subcommand}` does not take --sandbox: it asks no gateway, or"
            " brings its own",
            MISUSED,
        )
