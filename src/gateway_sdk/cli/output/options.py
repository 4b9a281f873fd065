"""The options for the form of what is printed."""

from enum import Enum
from typing import Annotated, TypeAlias

import typer

from gateway_sdk.cli.failure import MISUSED, CommandError

AsJson: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the gateway's reply as JSON, numbers exact.")
]
AsCsv: TypeAlias = Annotated[
    bool, typer.Option("--csv", help="Print CSV (RFC 4180), for spreadsheets.")
]


class Form(Enum):
    """In which form data are printed."""

    TABLE = "a table in a terminal, lines with tabs in a pipe"
    JSON = "JSON"
    CSV = "CSV"


def choose_form(*, as_json: bool, as_csv: bool) -> Form:
    """Turn the two options into one.

    Raises:
        CommandError: both are given.
    """
    if as_json and as_csv:
        raise CommandError("--json and --csv contradict each other: choose one", MISUSED)
    if as_json:
        return Form.JSON
    return Form.CSV if as_csv else Form.TABLE
