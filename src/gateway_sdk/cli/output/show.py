"""Replies of a gateway on standard output: as a table, as JSON or as CSV."""

import sys
from collections.abc import Sequence
from enum import Enum
from typing import Any

from gateway_sdk.cli.failure import APPLIED, MISUSED, UNCHANGED, CommandError
from gateway_sdk.cli.output.console import make_console
from gateway_sdk.cli.output.stdout import OutputError, say, write_bytes, write_text
from gateway_sdk.cli.output.table import Table, to_csv, to_lines, to_terminal
from gateway_sdk.cli.output.values import printable, to_cell, to_json


class Form(Enum):
    """The forms of output, with their options."""

    TABLE = "a table in a terminal, lines with tabs in a pipe"
    JSON = "--json"
    CSV = "--csv"
    PLOT = "--plot"


def choose_form(*, as_json: bool, as_csv: bool, plot: bool = False) -> Form:
    """Return the form that the options ask for, at most one."""
    options = {Form.JSON: as_json, Form.CSV: as_csv, Form.PLOT: plot}
    given = [form for form, wanted in options.items() if wanted]
    if len(given) > 1:
        names = " and ".join(form.value for form in given)
        raise CommandError(f"{names} exclude each other: choose one", MISUSED)
    return given[0] if given else Form.TABLE


def show(table: Table, value: Any, form: Form, *, headings: Sequence[str] | None = None) -> None:
    """Print a table, or as JSON the value that it was made from.

    Args:
        table: The table.
        value: The value.
        form: The form.
        headings: Shorter names of the columns, for a terminal.
    """
    if form is Form.JSON:
        show_json(value)
    elif form is Form.CSV:
        write_text(to_csv(table))
    elif sys.stdout is None or not sys.stdout.isatty():
        write_text(to_lines(table))
    else:
        console = make_console(fewest_columns=1, most_columns=None)
        drawn, left_out = to_terminal(Table(headings or table.columns, table.rows), console)
        write_text(drawn)
        if left_out:
            say(f"No room for: {', '.join(left_out)}.\nA wider terminal or --csv shows all.")


def show_records(reply: Any, form: Form) -> None:
    """Print a reply as a table if it is a list of records, and else as JSON.

    Raises:
        CommandError: CSV is asked for, and the reply is not a list of records.
    """
    found = None if form is Form.JSON else find_records(reply)
    if found is not None:
        table, beside = found
        if table.rows:
            show(table, reply, form)
        if words := printable(beside) if table.rows else "The list is empty.":
            say(words)
    elif form is Form.CSV:
        problem = "the reply is not a list of records\n--json shows it."
        raise CommandError(problem, UNCHANGED)
    else:
        show_json(reply)


def find_records(reply: Any) -> tuple[Table, str] | None:
    """Read the usual shape: a list of objects, alone or in an object with single values.

    Returns:
        The table, with a column for every name in any of the objects, and the single values as
        text. None if the reply has another shape.
    """
    records, beside = take_apart(reply)
    if records is None or not all(isinstance(record, dict) for record in records):
        return None
    if any(isinstance(value, dict) for value in beside.values()):
        return None
    names = list(dict.fromkeys(name for record in records for name in record))
    rows = [[record.get(name) for name in names] for record in records]
    return Table(names, rows), ", ".join(f"{name} {to_cell(beside[name])}" for name in beside)


def take_apart(reply: Any) -> tuple[list[dict[str, Any]] | None, dict[str, Any]]:
    """Separate the only list of a reply from its other values."""
    if not isinstance(reply, dict):
        return (reply, {}) if isinstance(reply, list) else (None, {})
    lists = [name for name, value in reply.items() if isinstance(value, list)]
    if len(lists) != 1:
        return None, {}
    return reply[lists[0]], {name: reply[name] for name in reply if name != lists[0]}


def show_done(done: str, reply: Any) -> None:
    """Say that something is done, and print the gateway's reply, if there is one."""
    say(done)
    try:
        if reply is not None:
            show_json(reply)
    except OutputError as error:
        lost = "It was done, so do not repeat it; only the reply is lost."
        raise OutputError(f"{error}\n{lost}", APPLIED) from None


def show_json(value: Any) -> None:
    """Print a value as JSON, and bytes, which a gateway may reply with, as they are."""
    if isinstance(value, bytes):
        write_bytes(value)
    else:
        write_text(f"{to_json(value)}\n")
