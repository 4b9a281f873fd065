"""What commands print: tables for a terminal or a pipe, JSON, CSV, facts, progress bars."""

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import simplejson
from rich import box, progress as bars
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table as RichTable
from rich.text import Text

from gateway_sdk._python import without_formula
from gateway_sdk.cli.arguments import switch
from gateway_sdk.cli.process import CommandError, Status, printable, say, write_out

KeyValue = tuple[str, str]
Show = Callable[..., None]  # updates a bar: how much is done, of how much, and other words


def make_console(*, stderr: bool = False) -> Console:
    return Console(markup=False, emoji=False, highlight=False, stderr=stderr)


def print_key_values(*pairs: KeyValue) -> None:
    """Print keys in bold with their values; only the terminal breaks a line."""
    console = make_console()
    for key, value in pairs:
        console.print(Text.assemble((f"{key:<11}", "bold"), value), soft_wrap=True)


def counting_bar(doing: str) -> AbstractContextManager[Show]:
    one_line = Column(no_wrap=True)
    notes = bars.TextColumn("{task.fields[notes]}", markup=False, table_column=one_line)
    return progress(doing, bars.MofNCompleteColumn(), notes)


def upload_bar(doing: str) -> AbstractContextManager[Show]:
    return progress(doing, bars.DownloadColumn(), bars.TransferSpeedColumn())


@contextmanager
def progress(doing: str, *columns: bars.ProgressColumn) -> Generator[Show]:
    """Draw a bar on standard error, in a terminal only, and yield a function that updates it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda *_: None  # rich before 14.3 ends a disabled bar with an empty line
        return
    with bars.Progress(
        bars.TextColumn(doing),
        bars.BarColumn(bar_width=None),
        *columns,
        bars.TimeRemainingColumn(),
        console=make_console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("", total=None, visible=False)

        def show(done: int, total: int | None, *notes: str) -> None:
            told = "".join(f"· {words} " for words in notes)
            bar.update(task, completed=done, total=total, visible=True, notes=told)

        yield show


PLAIN_DIGITS: Final = 40  # a larger number, such as 1E+1000000, keeps its exponent


def to_json(value: Any, *, indent: int | None = 2) -> str:
    text: str = simplejson.dumps(value, use_decimal=True, ensure_ascii=False, indent=indent)
    # Terminals obey control characters, and format characters reverse or hide the text around
    # them; escaped, they are the same JSON.
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def to_cell(value: Any) -> str:
    """Write a value as the text of a cell: None is empty, lists and objects are JSON."""
    match value:
        case None:
            return ""
        case Decimal():
            return format(value, "f") if abs(value.adjusted()) < PLAIN_DIGITS else str(value)
        case Mapping() | list() | bool():
            return to_json(value, indent=None)
        case _:
            return str(value)


def describe_moment(moment: float, now: float) -> str:
    distance = timedelta(seconds=round(abs(moment - now)))
    text = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{text}, {distance} ago" if moment < now else f"{text}, in {distance}"


GAP: Final = 2  # characters between two columns
FEWEST_COLUMNS: Final = 2  # of a table
_AMOUNT: Final = re.compile(r"([+-]?\d+(\.\d+)?)?")


class Table(NamedTuple):
    """Rows under names; a cell is a value, None if it is empty, or a Text if it has a style."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def to_csv(table: Table, form: str) -> str:
    """Write CSV by RFC 4180: a header, lines that end in CRLF, quotes where needed."""
    text = io.StringIO()
    text.write("\ufeff" if form == "excel" else "")
    writer = csv.writer(text)
    writer.writerow(table.columns)
    for row in table.rows:
        cells = map(to_cell, row)
        writer.writerow(map(without_formula, cells) if form == "excel" else cells)
    return text.getvalue()


LESS: Final = ("customerId", "createdAt")
"""Columns of orders that are left out first: the last one before the others."""


def show_in_terminal(table: Table, console: Console) -> list[str]:
    """Show the columns that fit, at least two, and return the names of the others."""
    # The box adds a column to the padding between two columns.
    drawn = RichTable(
        box=box.SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False
    )
    names = [printable(name) for name in table.columns]
    columns = [[printable(to_cell(row[it])) for row in table.rows] for it in range(len(names))]
    needed = [
        GAP + max(cell_len(word) for cell in (name, *cells) for word in cell.split(" "))
        for name, cells in zip(names, columns, strict=True)
    ]
    room = console.width + GAP
    kept = [*range(len(names))]
    while sum(needed[it] for it in kept) > room and len(kept) > FEWEST_COLUMNS:
        kept.remove(max(kept, key=lambda it: (names[it] in LESS and LESS.index(names[it]) + 1, it)))
    wraps = sum(needed[it] for it in kept) > room
    for it in kept:
        # Only words wrap: an id on two lines cannot be copied.
        no_wrap = not wraps and not any(" " in cell for cell in (names[it], *columns[it]))
        are_amounts = all(_AMOUNT.fullmatch(cell) for cell in columns[it])
        if are_amounts:
            columns[it] = [cell.rjust(cell_len(names[it])) for cell in _aligned(columns[it])]
        drawn.add_column(
            Text(names[it], justify="right" if are_amounts else "left"),
            style="" if drawn.columns else "bold",
            overflow="fold",
            no_wrap=no_wrap,
        )
    for place, row in enumerate(table.rows):
        drawn.add_row(
            *(row[it] if isinstance(row[it], Text) else columns[it][place] for it in kept)
        )
    console.print(drawn)
    return [names[it] for it in range(len(names)) if it not in kept]


def _aligned(amounts: Sequence[str]) -> list[str]:
    """Put the decimal points below each other; gateways may write exact amounts as text."""
    parts = [amount.partition(".") for amount in amounts]
    whole, point, rest = (max((len(part[it]) for part in parts), default=0) for it in range(3))
    return [f"{part[0]:>{whole}}{part[1]:{point}}{part[2]:{rest}}" for part in parts]


AsJson: TypeAlias = Annotated[bool, switch("--json", "Print JSON, with all digits.")]
AsCsv: TypeAlias = Annotated[
    bool | None,
    switch("--csv/--excel", "Print CSV (RFC 4180) for programs, or for Excel, without formulas."),
]


CSV: Final = ("csv", "excel")


def choose_form(*, as_json: bool, as_csv: bool | None) -> str:
    if as_json and as_csv is not None:
        raise CommandError("--json and --csv or --excel exclude each other: choose one")
    return "json" if as_json else {None: "table", True: "csv", False: "excel"}[as_csv]


def show(table: Table, value: Any, form: str, *, headings: Sequence[str] | None = None) -> None:
    if form == "json":
        show_json(value)
    elif form in CSV:
        write_out(to_csv(table, form))
    elif sys.stdout is None or not sys.stdout.isatty():
        lines = [map(printable, map(to_cell, line)) for line in (table.columns, *table.rows)]
        write_out("".join("\t".join(line) + "\n" for line in lines))
    else:
        shown = Table(headings or table.columns, table.rows)
        if left_out := show_in_terminal(shown, make_console()):
            advice = "A wider terminal shows all, and so does `| cat`."
            say(f"No room for: {', '.join(left_out)}.\n{advice}")


def show_records(reply: Any, form: str) -> None:
    """Print a reply as a table if it is a list of records, and else as JSON."""
    records, beside = (None, {}) if form == "json" else take_apart(reply)
    # Nothing of a reply is left out because it does not fit into a table.
    fits = not any(isinstance(value, dict) for value in beside.values())
    if records is not None and fits and all(isinstance(record, dict) for record in records):
        names = list(dict.fromkeys(name for record in records for name in record))
        rows = [[record.get(name) for name in names] for record in records]
        if rows:
            show(Table(names, rows), reply, form)
        words = ", ".join(f"{name} {to_cell(beside[name])}" for name in beside)
        if words := printable(words) if rows else "The list is empty.":
            say(words)
    elif form in CSV:
        raise CommandError("the reply is not a list of records\n--json shows it.", Status.UNCHANGED)
    else:
        show_json(reply)


def take_apart(reply: Any) -> tuple[list[dict[str, Any]] | None, dict[str, Any]]:
    """Separate the only list of a reply from its other values."""
    if not isinstance(reply, dict):
        return (reply, {}) if isinstance(reply, list) else (None, {})
    lists = [name for name, value in reply.items() if isinstance(value, list)]
    if len(lists) != 1:
        return None, {}
    return reply[lists[0]], {name: reply[name] for name in reply if name != lists[0]}


def show_done(done: str, reply: Any) -> None:
    say(done)
    try:
        if reply is not None:
            show_json(reply)
    except (CommandError, SystemExit) as error:
        left = "cannot write the output: its reader has left"
        problem = error if isinstance(error, CommandError) else left
        lost = "It was done, so do not repeat it; only the reply is lost."
        raise CommandError(f"{problem}\n{lost}", Status.APPLIED) from None


def show_json(value: Any) -> None:
    write_out(value if isinstance(value, bytes) else f"{to_json(value)}\n")
