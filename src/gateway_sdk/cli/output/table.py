"""Tables: drawn for a terminal, as lines with tabs for a pipe, as CSV for other programs."""

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
"""Characters between two columns."""

NARROW: Final = 66
"""In a terminal with fewer characters, columns of a table that do not fit are left out."""

WRAPPED: Final = 16
"""Characters that a column of words keeps at least."""

_AMOUNT: Final = re.compile(r"[+-]?\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under names.

    Attributes:
        columns: The names.
        rows: The values of each row: None for an empty cell, a Text for one with a style.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def to_lines(table: Table) -> str:
    """Write a header and one line per row, with tabs between the cells, for cut and grep."""
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
    """Draw a table as wide as the terminal; no cell is cut, long ones wrap.

    Columns that do not fit follow below, in a second table that begins with the first column again.
    In a narrow terminal that would be more headers than rows: there they are left out.

    Returns:
        The drawing, and the names of the columns that are left out.
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
        # Only words wrap: an id on two lines cannot be copied.
        wraps = width > WRAPPED and any(" " in cell for cell in cells)
        texts = [
            value if isinstance(value, Text) else Text(cell)
            for value, cell in zip(values, cells, strict=True)
        ]
        yield _Column(name, texts, width, wraps)


def _is_amount(value: Any) -> bool:
    """Whether a cell is a number; gateways may write exact amounts as text."""
    return value is None or isinstance(value, Decimal) or bool(_AMOUNT.fullmatch(str(value)))


def _aligned(name: str, numbers: Sequence[str]) -> list[str]:
    """Align numbers at their points, and the name to the right."""
    fractions = [len(number) - len(number.partition(".")[0]) for number in numbers]
    ends = [max(fractions, default=0) - fraction for fraction in fractions]
    aligned = [name, *(number + " " * end for number, end in zip(numbers, ends, strict=True))]
    width = max(map(len, aligned))
    return [text.rjust(width) for text in aligned]


def _parts(columns: Sequence[_Column], width: int, *, narrow: bool) -> list[list[_Column]]:
    """Divide the columns into tables that fit, each with the first column.

    A table has at least one more column, unless the terminal is narrow.
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
