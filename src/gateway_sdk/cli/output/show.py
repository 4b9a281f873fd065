"""Printing what a gateway replied, in the form that was asked for."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from gateway_sdk.cli.console import make_console
from gateway_sdk.cli.failure import APPLIED, UNCHANGED, CommandError
from gateway_sdk.cli.output.options import Form
from gateway_sdk.cli.output.printable import printable
from gateway_sdk.cli.output.records import find_records
from gateway_sdk.cli.output.stdout import OutputError, say, write_bytes, write_text
from gateway_sdk.cli.output.table import Table, to_csv, to_lines, to_terminal
from gateway_sdk.cli.output.values import to_json

DONE_UNSHOWN: Final = "It was done, so do not repeat it; only the reply is lost."


def show(table: Table, value: Any, form: Form, *, headings: Sequence[str] | None = None) -> None:
    """Print a table, or as JSON the value that it was made of.

    Args:
        table: The table.
        value: The value.
        form: Which of them, and how.
        headings: Shorter names of the columns, for a terminal.

    Raises:
        OutputError: standard output takes no more.
    """
    if form is Form.JSON:
        show_json(value)
    elif form is Form.CSV:
        write_text(to_csv(table))
    elif sys.stdout is not None and sys.stdout.isatty():
        # As wide as the terminal is: what does not fit goes below, and that reads worse.
        shown = replace(table, columns=headings or table.columns)
        write_text(to_terminal(shown, make_console(most_columns=None)))
    else:
        write_text(to_lines(table))


def show_records(reply: Any, form: Form) -> None:
    """Print a reply that is likely to be a list of records, or as it came if it is none.

    Raises:
        CommandError: CSV is asked for, and it is none; or standard output takes no more.
    """
    found = None if form is Form.JSON else find_records(reply)
    if found is not None:
        table, beside = found
        if table.rows:
            show(table, reply, form)
        if words := printable(beside) if table.rows else "There are none.":
            say(words)
    elif form is Form.CSV:
        raise CommandError(
            "the reply is no list of records\n--json shows it as it came.", UNCHANGED
        )
    else:
        show_json(reply)


def show_done(done: str, reply: Any) -> None:
    """Say that something is done, and print what the gateway replied, if anything.

    Raises:
        OutputError: standard output takes no more; the message says that it is done all the same.
    """
    say(done)
    if reply is None:
        return
    try:
        show_json(reply)
    except OutputError as error:
        raise OutputError(f"{error}\n{DONE_UNSHOWN}", APPLIED) from None


def show_json(value: Any) -> None:
    """Print a value as JSON; text and bytes, which some gateways may reply with, as they are.

    Raises:
        OutputError: standard output takes no more.
    """
    if isinstance(value, bytes):
        write_bytes(value)
    else:
        write_text(f"{to_json(value)}\n")
