"""Printing what a gateway replied, in the form that was asked for."""

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
    """In which form data are printed, by the option that asks for it."""

    TABLE = "a table in a terminal, lines with tabs in a pipe"
    JSON = "--json"
    CSV = "--csv"
    PLOT = "--plot"


def choose_form(*, as_json: bool, as_csv: bool, plot: bool = False) -> Form:
    """Turn the options into one; several contradict each other."""
    options = {Form.JSON: as_json, Form.CSV: as_csv, Form.PLOT: plot}
    given = [form for form, wanted in options.items() if wanted]
    if len(given) > 1:
        names = " and ".join(form.value for form in given)
        raise CommandError(f"{names} contradict each other: choose one", MISUSED)
    return given[0] if given else Form.TABLE


def show(table: Table, value: Any, form: Form, *, headings: Sequence[str] | None = None) -> None:
    """Print a table, or as JSON the value that it was made of.

    Args:
        table: The table.
        value: The value.
        form: Which of them, and how.
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
            say(
                f"No room for: {', '.join(left_out)}.\nA wider terminal, --csv or --json shows all."
            )


def show_records(reply: Any, form: Form) -> None:
    """Print a reply that is likely to be a list of records, or as it came if it is none.

    Raises:
        CommandError: CSV is asked for, and it is none.
    """
    found = None if form is Form.JSON else find_records(reply)
    if found is not None:
        table, beside = found
        if table.rows:
            show(table, reply, form)
        if words := printable(beside) if table.rows else "There are none.":
            say(words)
    elif form is Form.CSV:
        problem = "the reply is no list of records\n--json shows it as it came."
        raise CommandError(problem, UNCHANGED)
    else:
        show_json(reply)


def find_records(reply: Any) -> tuple[Table, str] | None:
    """Find the common shape: a list of objects, alone or under a name beside single values.

    Returns:
        The table, with a column for every name that any of the objects has; and the single
        values, in words. None if the reply is of another shape.
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
    """Part the only list of a reply from what stands beside it."""
    if not isinstance(reply, dict):
        return (reply, {}) if isinstance(reply, list) else (None, {})
    lists = [name for name, value in reply.items() if isinstance(value, list)]
    if len(lists) != 1:
        return None, {}
    return reply[lists[0]], {name: reply[name] for name in reply if name != lists[0]}


def show_done(done: str, reply: Any) -> None:
    """Say that something is done, and print what the gateway replied, if anything."""
    say(done)
    try:
        if reply is not None:
            show_json(reply)
    except OutputError as error:
        lost = "It was done, so do not repeat it; only the reply is lost."
        raise OutputError(f"{error}\n{lost}", APPLIED) from None


def show_json(value: Any) -> None:
    """Print a value as JSON; text and bytes, which some gateways may reply with, as they are."""
    if isinstance(value, bytes):
        write_bytes(value)
    else:
        write_text(f"{to_json(value)}\n")
