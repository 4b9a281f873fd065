"""Commands made from functions: the options from the signature, the help from the docstring.

A docstring has the help, then `Args:` with a line such as `page (N): Which page.` for each option
and argument that is not in `SHARED`, then `Examples:`, which the tests run.
"""

import inspect
import re
from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

SHARED: Final = """
    as_csv: Print CSV (RFC 4180), for spreadsheets.
    as_json: Print the gateway's reply as JSON, with all digits.
    auth_url (URL): The login page, in place of GATEWAY_AUTH_URL.
    broker (NAME): The name of the broker in the same module.
    client_id (ID): The client id, in place of GATEWAY_CLIENT_ID.
    content_type (TYPE): The media type, such as application/pdf; by default that of the file's
        name.
    customer_id (CUSTOMER): The id of the customer.
    document_id (DOCUMENT): The id of the document.
    end (DAY): The last day; today by default.
    job (JOB): The module and the name of the job in it, such as jobs:rates.
    start (DAY): The first day: 2026-01-31, today, yesterday, or a time before today: 10d, 6w, 3m,
        1y.
"""
"""What several commands take."""

_ENTRY: Final = re.compile(r"^ {4}(\w+)(?: \(([^)]+)\))?: (.+(?:\n {5,}.+)*)", re.MULTILINE)


def make_command(function: Callable[..., Any], name: str) -> TyperCommand:
    """Make a command."""
    text, entries, examples = _parts(function)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, help=text, epilog=examples)(function)
    command: TyperCommand = _described(app, entries)
    return command


def make_group(summary: str, functions: dict[str, Callable[..., Any]]) -> TyperGroup:
    """Make a command of commands."""
    commands: Any = {name: make_command(function, name) for name, function in functions.items()}
    return TyperGroup(commands=commands, help=summary, no_args_is_help=True, rich_markup_mode=None)


def make_root(group: type[TyperGroup], function: Callable[..., Any]) -> TyperGroup:
    """Make the command line; *group* finds its commands."""
    text, entries, _ = _parts(function)
    app = typer.Typer(cls=group, rich_markup_mode=None)
    app.callback(
        help=text, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]}
    )(function)
    root: TyperGroup = _described(app, entries)
    return root


def _parts(function: Callable[..., Any]) -> tuple[str, str, str | None]:
    """Split a docstring into help, entries and examples."""
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
