"""Tables: for eyes in a terminal, as lines with tabs in a pipe, as CSV for other programs."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from gateway_sdk.cli.output.values import printable, to_cell

GAP: Final = 2
"""Columns between two columns."""

NARROW: Final = 66
"""In a terminal of fewer columns, those of a table that do not fit are left out."""

WRAPPED: Final = 16
"""Columns that a column of words keeps at least, however narrow the terminal."""

_AMOUNT: Final = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under names.

    Attributes:
        columns: The names.
        rows: Each has a value for each column: None where there is nothing, a Text for a style.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def to_lines(table: Table) -> str:
    """Write a header and one line per row, tabs between the cells, as cut and grep take it."""
    lines = (table.columns, *table.rows)
    return "".join("\t".join(printable(to_cell(cell)) for cell in line) + "\n" for line in lines)


def to_csv(table: Table) -> str:
    """Write RFC 4180: a header, lines that end in CRLF, quotes where they are needed."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table.columns)
    writer.writerows([to_cell(value) for value in row] for row in table.rows)
    return text.getvalue()


def to_terminal(table: Table, console: Console) -> tuple[str, list[str]]:
    """Draw a table as wide as the terminal, and never cut: long words wrap.

    If its columns do not fit beside one another, they go on below, beside the first one again. In
    a narrow terminal that would be more headers than rows: there they are left out.

    Returns:
        What is drawn, and the names of the columns that are left out.
    """
    narrow = console.width < NARROW
    parts = _parts(list(_columns(table)), console.width, narrow=narrow)
    shown = parts[:1] if narrow else parts
    with console.capture() as drawn:
        for number, part in enumerate(shown):
            console.print("\n" if number else "", end="")
            console.print(_draw(part, console.width))
    return drawn.get(), [column.name.strip() for part in parts[len(shown) :] for column in part[1:]]


class _Column(NamedTuple):
    """A column: its cells, how wide they are, and whether they may wrap."""

    name: str
    cells: Sequence[Text]
    width: int
    wraps: bool

    @property
    def least(self) -> int:
        return WRAPPED if self.wraps else self.width


def _columns(table: Table) -> Iterator[_Column]:
    for place, heading in enumerate(table.columns):
        values = [row[place] for row in table.rows]
        name, cells = printable(heading), [printable(to_cell(value)) for value in values]
        if all(map(_is_amount, values)):
            name, *cells = _aligned(name, cells)
        width = max(map(cell_len, (name, *cells)))
        # Of words; an id that wraps cannot be copied.
        wraps = width > WRAPPED and any(" " in cell for cell in cells)
        texts = [
            value if isinstance(value, Text) else Text(cell)
            for value, cell in zip(values, cells, strict=True)
        ]
        yield _Column(name, texts, width, wraps)


def _is_amount(value: Any) -> bool:
    """Tell whether it is a number, or a text that is: gateways write exact amounts as texts."""
    return value is None or isinstance(value, Decimal) or bool(_AMOUNT.fullmatch(str(value)))


def _aligned(name: str, numbers: Sequence[str]) -> list[str]:
    """Set numbers so that their points stand one below another; rich would remove the spaces."""
    longest = max((len(number) - len(number.partition(".")[0]) for number in numbers), default=0)
    aligned = [
        number + " " * (longest - len(number) + len(number.partition(".")[0])) for number in numbers
    ]
    width = max(map(len, (name, *aligned)))
    return [text.rjust(width) for text in (name, *aligned)]


def _parts(columns: Sequence[_Column], width: int, *, narrow: bool) -> list[list[_Column]]:
    """Part the columns into those that fit, each beside the first one.

    At least one goes there in any case, unless the terminal is narrow.
    """
    first, *others = columns
    parts, used = [[first]], first.least
    for column in others:
        used += GAP + column.least
        if used > width and (narrow or len(parts[-1]) > 1):
            parts.append([first])
            used = first.least + GAP + column.least
        parts[-1].append(column)
    return parts


def _draw(columns: Sequence[_Column], width: int) -> RichTable:
    fits = sum(column.least + GAP for column in columns) - GAP <= width
    # The box adds a column to the padding between two columns.
    drawn = RichTable(
        box=box.SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False, show_edge=False
    )
    for number, column in enumerate(columns):
        style, no_wrap = "" if number else "bold", not column.wraps and fits
        drawn.add_column(Text(column.name), style=style, overflow="fold", no_wrap=no_wrap)
    for cells in zip(*(column.cells for column in columns), strict=True):
        drawn.add_row(*cells)
    return drawn
