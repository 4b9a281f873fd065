"""What commands print: tables for a terminal or a pipe, JSON, CSV, facts, progress bars."""

import csv
import errno
import io
import json
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from itertools import accumulate
from textwrap import wrap
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import simplejson
from rich import box, progress as bars
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table as RichTable
from rich.text import Text

from gateway_sdk.cli.process import (
    CommandError,
    Status,
    printable,
    say,
    whole_output,
    write_out,
)

FEWEST_COLUMNS: Final = 40  # in a narrower terminal, lines are broken by the terminal
KEY_COLUMNS: Final = 11

KeyValue = tuple[str, str]
Show = Callable[..., None]
"""Updates a bar: how many are done, of how many, how many of them are new, and other words."""


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """End as `write_out` does: rich ends with 1, as if the command had failed."""
        with whole_output():
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def make_console(*, fewest_columns: int = FEWEST_COLUMNS, stderr: bool = False) -> Console:
    console = _Console(markup=False, emoji=False, highlight=False, stderr=stderr)
    console.width = max(fewest_columns, console.width)
    return console


def print_key_values(pairs: Iterable[KeyValue]) -> None:
    """Print keys in bold with their values; a long word such as a path is not broken."""
    console = make_console()
    room, indent = console.width - KEY_COLUMNS, "\n" + " " * KEY_COLUMNS
    for key, value in pairs:
        lines = wrap(value, room, break_long_words=False, break_on_hyphens=False)
        text = Text.assemble((f"{key:<{KEY_COLUMNS}}", "bold"), indent.join(lines))
        console.print(text, soft_wrap=True)  # it is wrapped already


class Notes(bars.ProgressColumn):
    """What a command says of its progress, then the speed, and the time for what is left."""

    def render(self, task: bars.Task) -> Text:
        """Write them; the speed is that of what is new since the bar began."""
        notes, speed = [*task.fields["notes"]], task.fields["new"] / (task.elapsed or 1)
        if speed:
            two_digits = float(f"{speed:.2g}")
            left = format_span((task.remaining or 0) / speed)
            notes += [f"{two_digits:g}/s", f"{left} left"]
        return Text(" ".join(f"· {words}" for words in notes))


def counting_bar(doing: str) -> AbstractContextManager[Show]:
    return progress(doing, bars.MofNCompleteColumn(), Notes(Column(no_wrap=True)))


def upload_bar(doing: str) -> AbstractContextManager[Show]:
    speed, left = bars.TransferSpeedColumn(), bars.TimeRemainingColumn()
    return progress(doing, bars.DownloadColumn(), speed, left)


@contextmanager
def progress(doing: str, *columns: bars.ProgressColumn) -> Generator[Show]:
    """Draw a bar on standard error, in a terminal only, and yield a function that updates it."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield lambda *_: None
        return
    named = bars.TextColumn(doing), bars.BarColumn(bar_width=None)
    console = make_console(fewest_columns=1, stderr=True)
    with bars.Progress(*named, *columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)

        def show(done: int, total: int | None, new: int = 0, *notes: str) -> None:
            bar.update(task, completed=done, total=total, visible=True, new=new, notes=notes)

        yield show


PLAIN_DIGITS: Final = 40  # a number with more digits, such as 1E+1000000, keeps its exponent
_UNITS: Final = (("days", 86400), ("h", 3600), ("min", 60), ("s", 1))
_LEAST: Final = 2  # with fewer of a unit, the next smaller unit is used


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Write a value as JSON; a Decimal keeps all its digits."""
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
            _, digits, exponent = value.as_tuple()
            short = isinstance(exponent, int) and abs(exponent) + len(digits) <= PLAIN_DIGITS
            return format(value, "f") if short else str(value)
        case Mapping() | list() | bool():
            return to_json(value, indent=None)
        case _:
            return str(value)


def describe_moment(moment: float, now: float) -> str:
    distance = format_span(abs(moment - now))
    text = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{text}, {distance} ago" if moment < now else f"{text}, in {distance}"


def format_span(seconds: float) -> str:
    """Write a number of seconds in a unit of fitting size, without fractions."""
    whole = round(seconds)
    unit, size = next((pair for pair in _UNITS if whole >= _LEAST * pair[1]), _UNITS[-1])
    return f"{round(whole / size)} {unit}"


GAP: Final = 2  # characters between two columns
WRAPPED: Final = 16  # characters that a column of words keeps at least
_AMOUNT: Final = re.compile(r"[+-]?\d+(\.\d+)?")


class Table(NamedTuple):
    """Rows under names; a cell is a value, None if it is empty, or a Text if it has a style."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def to_lines(table: Table) -> str:
    lines = (table.columns, *table.rows)
    return "".join("\t".join(printable(to_cell(cell)) for cell in line) + "\n" for line in lines)


def to_csv(table: Table) -> str:
    """Write CSV by RFC 4180: a header, lines that end in CRLF, quotes where needed."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table.columns)
    writer.writerows([to_cell(value) for value in row] for row in table.rows)
    return text.getvalue()


def to_terminal(table: Table, console: Console) -> tuple[str, list[str]]:
    """Draw the columns that fit, at least two, and name the others."""
    columns = [_column(*column) for column in zip(table.columns, *table.rows, strict=True)]
    ends = [end - GAP for end in accumulate(least + GAP for _, least, _ in columns)]
    count = max(2, sum(end <= console.width for end in ends))
    fits = all(end <= console.width for end in ends[:count])
    # The box adds a column to the padding between two columns.
    drawn = RichTable(
        box=box.SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False
    )
    for number, ((heading, *_), _, wraps) in enumerate(columns[:count]):
        style, no_wrap = "" if number else "bold", not wraps and fits
        drawn.add_column(heading, style=style, overflow="fold", no_wrap=no_wrap)
    for row in zip(*(cells[1:] for cells, _, _ in columns[:count]), strict=True):
        drawn.add_row(*row)
    with console.capture() as shown:
        console.print(drawn)
    return shown.get(), [printable(name) for name in table.columns[count:]]


def _column(heading: str, *values: Any) -> tuple[list[Text], int, bool]:
    """Write a heading and its cells; also the width that they need, and whether they may wrap."""
    texts = [printable(heading), *(printable(to_cell(value)) for value in values)]
    # Gateways may write exact amounts as text.
    if all(it is None or isinstance(it, Decimal) or _AMOUNT.fullmatch(str(it)) for it in values):
        texts = _aligned(*texts)
    width = max(map(cell_len, texts))
    # Only words wrap: an id on two lines cannot be copied.
    wraps = width > WRAPPED and any(" " in text for text in texts[1:])
    pairs = zip((heading, *values), texts, strict=True)
    cells = [value if isinstance(value, Text) else Text(text) for value, text in pairs]
    return cells, WRAPPED if wraps else width, wraps


def _aligned(name: str, *numbers: str) -> list[str]:
    """Align numbers at their points, and the name to the right."""
    fractions = [len(number) - len(number.partition(".")[0]) for number in numbers]
    ends = [max(fractions, default=0) - fraction for fraction in fractions]
    aligned = [name, *(number + " " * end for number, end in zip(numbers, ends, strict=True))]
    width = max(map(len, aligned))
    return [text.rjust(width) for text in aligned]


Form: TypeAlias = Literal["table", "json", "csv", "plot"]
"""A form of output, with the option of its name; a table is lines with tabs in a pipe."""


def choose_form(*, as_json: bool, as_csv: bool, plot: bool = False) -> Form:
    """Return the form that the options ask for, at most one."""
    options: dict[Form, bool] = {"json": as_json, "csv": as_csv, "plot": plot}
    given: list[Form] = [form for form, wanted in options.items() if wanted]
    if len(given) > 1:
        names = " and ".join(f"--{form}" for form in given)
        raise CommandError(f"{names} exclude each other: choose one")
    return given[0] if given else "table"


def show(table: Table, value: Any, form: Form, *, headings: Sequence[str] | None = None) -> None:
    if form == "json":
        show_json(value)
    elif form == "csv":
        write_out(to_csv(table))
    elif sys.stdout is None or not sys.stdout.isatty():
        write_out(to_lines(table))
    else:
        console = make_console(fewest_columns=1)
        drawn, left_out = to_terminal(Table(headings or table.columns, table.rows), console)
        write_out(drawn)
        if left_out:
            advice = "A wider terminal shows all, and so does `| cat`."
            say(f"No room for: {', '.join(left_out)}.\n{advice}")


def show_records(reply: Any, form: Form) -> None:
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
    elif form == "csv":
        problem = "the reply is not a list of records\n--json shows it."
        raise CommandError(problem, Status.UNCHANGED)
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
    """Say that something is done, and print the gateway's reply, if there is one."""
    say(done)
    try:
        if reply is not None:
            show_json(reply)
    except CommandError as error:
        lost = "It was done, so do not repeat it; only the reply is lost."
        raise CommandError(f"{error}\n{lost}", Status.APPLIED) from None


def show_json(value: Any) -> None:
    write_out(value if isinstance(value, bytes) else f"{to_json(value)}\n")
