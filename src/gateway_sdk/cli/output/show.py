"""Printing what a gateway replied, in the form that was asked for."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gateway_sdk.cli.console import make_console
from gateway_sdk.cli.output.options import Form
from gateway_sdk.cli.output.stdout import write_bytes, write_text
from gateway_sdk.cli.output.table import Table, to_csv, to_lines, to_terminal
from gateway_sdk.cli.output.values import to_json


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
    elif sys.stdout.isatty():
        # As wide as the terminal is: what does not fit goes below, and that reads worse.
        shown = replace(table, columns=headings or table.columns)
        write_text(to_terminal(shown, make_console(most_columns=None)))
    else:
        write_text(to_lines(table))


def show_json(value: Any) -> None:
    """Print a value as JSON; text and bytes, which some gateways may reply with, as they are.

    Raises:
        OutputError: standard output takes no more.
    """
    if isinstance(value, bytes):
        write_bytes(value)
    else:
        write_text(f"{to_json(value)}\n")
