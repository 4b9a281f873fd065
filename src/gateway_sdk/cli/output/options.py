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
    PLOT = "curves"


def choose_form(*, as_json: bool, as_csv: bool, plot: bool = False) -> Form:
    """Turn the options into one.

    Raises:
        CommandError: there are several; the message names them.
    """
    options = {"--json": (as_json, Form.JSON), "--csv": (as_csv, Form.CSV)}
    options["--plot"] = (plot, Form.PLOT)
    given = {option: form for option, (wanted, form) in options.items() if wanted}
    if len(given) > 1:
        raise CommandError(f"{' and '.join(given)} contradict each other: choose one", MISUSED)
    return next(iter(given.values()), Form.TABLE)
