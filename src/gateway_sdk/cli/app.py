"""The command line: its options, the table of its commands, and the messages of errors.

A command is a function in `commands/`, whose docstring is its help. Its module is imported when the
command is used, so that `--version` and `--help` do not import the SDK.
"""

import inspect
import re
import sys
from collections.abc import Callable
from copy import copy
from importlib import import_module
from textwrap import dedent, indent
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from gateway_sdk._version import __version__
from gateway_sdk.cli.process import CommandError, say, tolerate_any_encoding

WITHOUT_SANDBOX: Final = frozenset({"demo", "sandbox", "login", "status", "logout", "profiles"})
"""Commands that call no gateway, or start their own."""

COMMANDS: Final = {
    "Ask a gateway": {
        "countries": "List the countries of the world, with their codes and currencies.",
        "rates": "Fetch the exchange rates of currencies against another, day by day.",
        "bulk": "Fetch the rates of many currencies, and export what a run has fetched.",
        "fleet": "Run a job of your own on many machines, on one PostgreSQL database.",
        "customer": "Create and revise customers.",
        "wallet": "Show orders and balances, and cancel an order.",
        "aml": "Upload documents, update them, change their status.",
        "kyc": "Call the webhook.",
    },
    "Try it": {
        "demo": "Show the whole SDK at work: a year of exchange rates for every country's"
        " currency.",
        "sandbox": "Run a gateway on this machine: all twelve operations, on real data, in memory.",
    },
    "Access token": {
        "login": "Log in with a browser, and store the access token for programs.",
        "status": "Show the settings in force, where each comes from, and how long the access token"
        " is valid.",
        "logout": "Delete the access token that `gateway login` stored.",
        "profiles": "List the gateways that `gateway login` has remembered.",
    },
}
"""By section of the help: the first line of each command's docstring, or a group's purpose."""

SUMMARIES: Final = {name: text for panel in COMMANDS.values() for name, text in panel.items()}
MEMBERS: Final[dict[str, tuple[str, ...]]] = {
    "bulk": ("rates", "export"),
    "fleet": (
        *("init", "plan", "worker", "status", "collect"),
        *("failed", "unknown", "retry", "delete"),
    ),
    "customer": ("create", "example", "revise"),
    "wallet": ("orders", "history", "balance", "cancel"),
    "aml": ("upload", "update", "status"),
    "kyc": ("webhook",),
}
MOVED: Final = {
    "document": "aml",
    "webhook": "kyc webhook",
    "currency": "rates",
    "country_data": "countries",
    **{verb: f"wallet {verb}" for verb in ("orders", "history", "balance", "cancel")},
    **{verb: f"aml {verb}" for verb in ("upload", "update")},
    **{verb: f"customer {verb}" for verb in ("create", "revise")},
}
"""What is typed for a command, and the command that is meant."""

WANTED: Final = {
    "int_parsing": "write a whole number",
    "float_parsing": "write a number",
    "bool_parsing": "write 1 or 0",
    "greater_than_equal": "write at least {ge:g}",
    "less_than_equal": "write at most {le:g}",
}
"""By the type of pydantic's error, whose words typer shows from 0.28 on; earlier it has its own."""

ELSEWHERE: Final[dict[str, str]] = dict.fromkeys(("logout", "profiles", "status"), "login")
"""Commands that are in the module of another one."""


def load(name: str) -> Any:
    """Import a command or a group, and make it for typer."""
    module = import_module(f"gateway_sdk.cli.commands.{ELSEWHERE.get(name, name)}")
    if name not in MEMBERS:
        return _with_shared_options(make_command(getattr(module, name), name), name)
    members: Any = {
        member: _with_shared_options(make_command(getattr(module, member), member), name)
        for member in MEMBERS[name]
    }
    group = TyperGroup(
        commands=members, help=SUMMARIES[name], no_args_is_help=True, rich_markup_mode=None
    )
    return _with_shared_options(group, name)


def _with_shared_options(command: Any, name: str) -> Any:
    """Let the options of the root follow a command, too; its help does not repeat them."""
    for option in app.params:
        if option.name != "version" and not (option.name == "sandbox" and name in WITHOUT_SANDBOX):
            twin: Any = copy(option)
            twin.callback, twin.expose_value, twin.hidden, twin.envvar = _keep, False, True, None
            command.params.append(twin)
    return command


def _keep(ctx: Any, option: Any, value: object) -> None:
    if value:
        ctx.find_root().params[option.name] = value


class _Group(TyperGroup):
    """The commands, each imported when it is used, and the messages of their errors."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - typer's way
        for panel, summaries in COMMANDS.items():
            with formatter.section(panel):
                formatter.write_dl(list(summaries.items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in MOVED:
            raise typer.BadParameter(f"there is no {args[0]!r}: it is `gateway {MOVED[args[0]]}`")
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in SUMMARIES else command, rest

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            rest: list[str] = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            raise reworded(error) from None
        return rest

    def invoke(self, ctx: Any) -> Any:
        # Imported here, because it needs the SDK.
        from gateway_sdk.cli.session import explain, quote  # noqa: PLC0415
        from gateway_sdk.errors import GatewayError  # noqa: PLC0415

        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            raise reworded(error) from None
        except KeyboardInterrupt as stop:
            # On a line of its own, below the terminal's ^C.
            say("\n".join(("\ngateway: stopped by Ctrl-C", *stop.args)).rstrip())
            raise
        except (CommandError, GatewayError) as error:
            if ctx.params["debug"]:
                if isinstance(error, GatewayError):
                    say(f"gateway: {error.summary}{quote(error, personal=True)}")
                raise
            failure = explain(error) if isinstance(error, GatewayError) else error
        say(f"gateway: {failure}")
        raise typer.Exit(failure.status)


def reworded(error: typer.BadParameter) -> typer.BadParameter:
    """Say what is wrong with a value in the words of the command line."""
    causes: Any = getattr(error.__cause__, "errors", list)()
    for cause in causes[:1]:
        error.message = WANTED.get(cause["type"], error.message).format_map(cause.get("ctx", {}))
    return error


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer's way to call it
    if wanted:
        sys.stdout.write(f"gateway-sdk {__version__}\n")
        raise typer.Exit


def gateway(
    ctx: typer.Context,
    *,
    base_url: str | None = None,
    tenant: str | None = None,
    token_header_file: Annotated[typer.FileText | None, typer.Option(errors="replace")] = None,
    profile: str | None = None,
    sandbox: bool = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", envvar="GATEWAY_LOG")] = False,
    debug: bool = False,
    version: Annotated[bool, typer.Option(callback=_print_version, is_eager=True)] = False,
) -> None:
    """Use the Gateway Service from the command line.

    New here? `gateway demo` shows the whole SDK at work, and with --sandbox every command works
    without a gateway. Otherwise GATEWAY_BASE_URL has the gateway's address, and the access token is
    in GATEWAY_ACCESS_TOKEN, or comes from `gateway login`. The options below may also follow a
    command; its own options must follow it.

    Args:
        base_url (URL): The gateway's address.
        tenant (ID): The tenant.
        token_header_file (FILE): A file with the value of the header token, in place of
            GATEWAY_TOKEN_HEADER.
        profile (NAME): Use the gateway that `gateway login` remembered under this name.
        sandbox: Use a gateway in memory, with real data, that exists for this command only.
        verbose: Log each request to standard error, without any value or secret.
        debug: Show errors with a traceback.
        version: Print the version.
    """
    del base_url, tenant, token_header_file, profile, verbose, debug, version  # read when needed
    tolerate_any_encoding()
    if sandbox and ctx.invoked_subcommand in WITHOUT_SANDBOX:
        raise CommandError(f"`gateway {ctx.invoked_subcommand}` does not take --sandbox")


SHARED: Final = """
    as_csv: Print CSV (RFC 4180), for spreadsheets.
    as_json: Print the gateway's reply as JSON, with all digits.
    auth_url (URL): The login page, in place of GATEWAY_AUTH_URL.
    client_id (ID): The client id, in place of GATEWAY_CLIENT_ID.
    content_type (TYPE): The media type, such as application/pdf; by default that of the file's
        name.
    customer_id (CUSTOMER): The id of the customer.
    document_id (DOCUMENT): The id of the document.
    end (DAY): The last day; today by default.
    job (JOB): The module and the name of the job in it, such as jobs:rates.
    plan (PLAN): The name of the plan, such as rates-2026-01.
    start (DAY): The first day: 2026-01-31, today, yesterday, or a time before today: 10d, 6w, 3m,
        1y.
"""
"""What several commands take."""

_ENTRY: Final = re.compile(r"^ {4}(\w+)(?: \(([^)]+)\))?: (.+(?:\n {5,}.+)*)", re.MULTILINE)


def make_command(function: Callable[..., Any], name: str) -> TyperCommand:
    text, entries, examples = _parts(function)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, help=text, epilog=examples)(function)
    command: TyperCommand = _described(app, entries)
    return command


def _parts(function: Callable[..., Any]) -> tuple[str, str, str | None]:
    # An entry is a line such as `page (N): Which page.`, for what is not in SHARED. Tests run the
    # examples.
    text, _, examples = inspect.getdoc(function).partition("\n\nExamples:\n")  # type: ignore[union-attr]
    text, _, entries = text.partition("\n\nArgs:\n")
    # After "\b" typer does not wrap the lines of a paragraph.
    return text, entries, f"\b\nExamples:\n{indent(dedent(examples), '  ')}" if examples else None


def _described(app: typer.Typer, entries: str) -> Any:
    """Make what typer has been told of, with the help and the metavar of options and arguments."""
    command: Any = typer.main.get_command(app)
    found = _ENTRY.findall(SHARED + entries)
    texts = {name: (metavar, text) for name, metavar, text in found}
    for used in command.params:
        if used.name in texts:
            metavar, text = texts[used.name]
            used.metavar, used.help = metavar or used.metavar, " ".join(text.split())
        used.secondary_opts = []  # a switch has no opposite
        if used.param_type_name == "argument":
            # A type such as "<str>" says less than the name.
            used.display_type_rich = _no_type
    return command


def _no_type(**_: Any) -> str:
    return ""


def _make_root() -> TyperGroup:
    text, entries, _ = _parts(gateway)
    root = typer.Typer(cls=_Group, rich_markup_mode=None)
    names = {"help_option_names": ["-h", "--help"]}
    root.callback(help=text, no_args_is_help=True, context_settings=names)(gateway)
    made: TyperGroup = _described(root, entries)
    return made


app: Final = _make_root()
# For the help, completion and guesses; what is used is imported.
app.commands.update({name: TyperCommand(name, help=text) for name, text in SUMMARIES.items()})
