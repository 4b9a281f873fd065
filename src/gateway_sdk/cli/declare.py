"""Commands made from functions: the options from the signature, the help from the docstring.

A docstring has the help, then `Args:` with a line such as `page (N): Which page.` for each option
and argument, then `Examples:`, which the tests run.
"""

import inspect
import re
from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

_ENTRY: Final = re.compile(r"^ {4}(\w+)(?: \(([^)]+)\))?: (.+(?:\n {5,}.+)*)", re.MULTILINE)


def make_command(function: Callable[..., Any], name: str) -> TyperCommand:
    """Make a command."""
    text, entries, examples = _parts(function)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, help=text, epilog=examples)(function)
    command: Any = typer.main.get_command(app)
    describe(command, entries)
    made: TyperCommand = command
    return made


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
    root: Any = typer.main.get_command(app)
    describe(root, entries)
    made: TyperGroup = root
    return made


def _parts(function: Callable[..., Any]) -> tuple[str, str, str | None]:
    """Split a docstring into help, entries and examples."""
    text, _, examples = inspect.getdoc(function).partition("\n\nExamples:\n")  # type: ignore[union-attr]
    text, _, entries = text.partition("\n\nArgs:\n")
    # After "\b" typer does not wrap the lines of a paragraph.
    return text, entries, f"\b\nExamples:\n{indent(dedent(examples), '  ')}" if examples else None


def describe(command: Any, entries: str) -> None:
    """Set the help and the metavar of options and arguments."""
    texts = {name: (metavar, text) for name, metavar, text in _ENTRY.findall(entries)}
    for used in command.params:
        if used.name in texts:
            metavar, text = texts[used.name]
            used.metavar, used.help = metavar or used.metavar, " ".join(text.split())
        used.secondary_opts = []  # a switch has no opposite
        if used.param_type_name == "argument":
            # A type such as "<str>" says less than the name.
            used.display_type_rich = _no_type


def _no_type(**_: Any) -> str:
    return ""
