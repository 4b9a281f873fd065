"""The command line: its options, the table of its commands, and the messages of errors.

The module of a command is imported when the command is used, so that `--version` and `--help` do
not import the SDK.
"""

import os
import traceback
from copy import copy
from importlib import import_module
from pkgutil import get_data
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from gateway_sdk._version import __version__
from gateway_sdk.cli.arguments import GIVEN, option, switch
from gateway_sdk.cli.process import CommandError, Stop, say

if TYPE_CHECKING:  # here PyInstaller and other freezers find them
    from gateway_sdk.cli import login, operations, rates, sandbox

    FROZEN: Final = (login, operations, rates, sandbox)

NOT_TAKEN: Final = {
    **dict.fromkeys(
        ("demo", "sandbox"),  # they call a gateway of their own
        (
            *("sandbox", "base_url", "tenant_id", "token_header_file"),
            *("auth_url", "client_id", "deadline"),
        ),
    ),
    **dict.fromkeys(("login", "logout"), ("sandbox", "tenant_id", "token_header_file", "deadline")),
    "status": ("sandbox",),
}
"""The options for every command that have no effect on one."""

COMMANDS: Final = {
    "operations": {
        "countries": "List the countries of the world, with their codes and currencies.",
        "customer": "Create and revise customers.",
        "wallet": "Show orders and balances, and cancel an order.",
        "aml": "Upload documents, update them, change their status.",
        "kyc": "Call the webhook.",
    },
    "rates": {
        "rates": "Fetch the exchange rates of currencies against another, day by day.",
        "bulk": "Fetch the rates of many currencies; export a journal, settle what is unknown.",
    },
    "sandbox": {
        "demo": "Show the whole SDK at work: a year of exchange rates for every country's"
        " currency.",
        "sandbox": "Run a gateway on this machine: all operations, on real data, in memory.",
    },
    "login": {
        "login": "Log in with a browser, and store the access token for programs.",
        "status": "Show the settings in force, where each comes from, and how long the access token"
        " is valid.",
        "logout": "Delete the access token that `gateway login` stored.",
    },
}
"""By module: the first line of each command's docstring, or a group's purpose."""

SUMMARIES: Final = {name: text for found in COMMANDS.values() for name, text in found.items()}
MODULES: Final = {name: module for module, found in COMMANDS.items() for name in found}


def load(name: str) -> Any:
    """Import a command or a group; the options of the root may follow it, too."""
    module = import_module(f"gateway_sdk.cli.{MODULES[name]}")
    group: Any = typer.main.get_group(module.app)
    found = group.commands.get(name, group)
    members = {f"{name} {member}": it for member, it in getattr(found, "commands", {}).items()}
    if members:
        found.help, found.no_args_is_help = SUMMARIES[name], True
    for words, command in {name: found, **members}.items():
        command.epilog = _examples(words)
        command.short_help = (command.help or "").partition("\n\n")[0]  # else it is cut
        for used in command.params:
            if used.param_type_name == "argument":
                # A type such as "<str>" says less than the name.
                used.display_type_rich = "".format  # empty, whatever it is given
        for shared in app.params:
            own = {it.name for it in command.params}  # `bulk rates` has a deadline for the run
            if shared.name in ("version", *NOT_TAKEN.get(name, ()), *own):
                continue
            twin: Any = copy(shared)
            twin.callback, twin.expose_value, twin.hidden = _keep, False, True
            twin.is_eager = True  # --debug is for errors of the other arguments too
            command.params.append(twin)
    return found


def _examples(words: str) -> str | None:
    """Write what stands below the help of a command or a group; tests run it."""
    data = get_data("gateway_sdk.cli", "examples.txt") or b""
    lines = [it for it in data.decode().splitlines() if f"{it} ".startswith(f"gateway {words} ")]
    # typer does not wrap the lines of a paragraph that begins with "\b".
    return "\n  ".join(("\b\nExamples:", *lines)) if lines else None


def _keep(ctx: Any, option: Any, value: object) -> None:  # noqa: ARG001 - typer's way
    if value not in (None, False):  # an empty text is refused where it is used
        GIVEN[option.name] = value


_OFF: Final = ("", "0", "false", "no", "off")  # of GATEWAY_LOG; any other text turns it on


class _Group(TyperGroup):
    """The commands, each imported when it is used, and the messages of their errors."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        for shared in () if ctx.resilient_parsing else self.params:  # not while a shell completes
            is_given = ctx.params.get(shared.name) not in (None, False)
            if is_given and shared.name in NOT_TAKEN.get(name or "", ()):
                raise CommandError(f"`gateway {name}` does not take {shared.opts[0]}")
        return name, load(name) if name in SUMMARIES else command, rest

    def make_context(self, *args: Any, **options: Any) -> Any:
        with Stop.ending():  # to read the options imports a lot, and typer would end without a word
            return super().make_context(*args, **options)

    @Stop.ending()
    def invoke(self, ctx: Any) -> Any:
        # Imported here, because it needs the SDK.
        from gateway_sdk.cli.session import explain  # noqa: PLC0415
        from gateway_sdk.errors import GatewayError  # noqa: PLC0415

        GIVEN.clear()
        GIVEN.update(ctx.params)  # here, because to import a command may fail too
        # Not by typer, to which a word such as DEBUG is no switch.
        GIVEN["verbose"] |= os.environ.get("GATEWAY_LOG", "").lower() not in _OFF
        try:
            return super().invoke(ctx)
        except (CommandError, GatewayError) as error:
            if debug := GIVEN["debug"]:
                say(traceback.format_exc())
            failure = error if isinstance(error, CommandError) else explain(error, personal=debug)
        say(f"gateway: {failure}")
        raise typer.Exit(failure.status)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's way to call it
    if wanted:
        print(f"gateway-sdk {__version__}")  # noqa: T201 - as the help, nothing without an output
        raise typer.Exit


root = typer.Typer(
    cls=_Group,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@root.callback()
def gateway(
    *,
    base_url: Annotated[str | None, option("URL", "The gateway's address.")] = None,
    tenant_id: Annotated[str | None, option("ID", "The tenant.", "--tenant")] = None,
    token_header_file: Annotated[
        str | None, option("FILE", "A file with the header token (GATEWAY_TOKEN_HEADER).")
    ] = None,
    auth_url: Annotated[str | None, option("URL", "The login page.")] = None,
    client_id: Annotated[str | None, option("ID", "The client id of the login.")] = None,
    sandbox: Annotated[
        bool, switch("--sandbox", "Use a gateway in memory, with real data, for this command.")
    ] = False,
    verbose: Annotated[
        bool,
        switch("--verbose", "Log requests to stderr, without values (GATEWAY_LOG).", "-v"),
    ] = False,
    deadline: Annotated[
        float | None, option("SECONDS", "For a call; its end says what became of it.", min=0.001)
    ] = None,
    debug: Annotated[bool, switch("--debug", "Show errors with a traceback.")] = False,
    version: Annotated[
        bool, switch("--version", "Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Use the Gateway Service from the command line.

    New here? `gateway demo` shows the whole SDK at work, and with --sandbox every command works
    without a gateway. Otherwise GATEWAY_BASE_URL has the gateway's address, and the access token is
    in GATEWAY_ACCESS_TOKEN, or comes from `gateway login`. The options below may also follow a
    command; its own options must follow it.
    """


app: Final[Any] = typer.main.get_command(root)
# For the help, completion and guesses; what is used is imported.
app.commands.update({name: TyperCommand(name, short_help=text) for name, text in SUMMARIES.items()})
