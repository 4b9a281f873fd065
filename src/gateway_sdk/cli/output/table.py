"""Tables: for eyes in a terminal, as lines with tabs in a pipe, as CSV for other programs."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from gateway_sdk.cli.output.values import is_number, printable, to_cell

GAP: Final = 2
"""Columns between two columns."""

WRAPPED: Final = 16
"""Columns that a column of words keeps at least, however narrow the terminal."""

_AMOUNT: Final = re.compile(r"[+-]?\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under names; every row has a value for each column, None where there is nothing.

    Attributes:
        columns: The names.
        rows: The rows.
        styles: A style for the last cell of each row; empty for none.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    styles: Sequence[str] = ()

    def texts(self) -> list[list[str]]:
        """Give the cells as text on one line each."""
        return [[printable(to_cell(value)) for value in row] for row in self.rows]


def to_lines(table: Table) -> str:
    """Write a header and one line per row, tabs between the cells, as cut and grep take it."""
    header = [printable(name) for name in table.columns]
    return "".join("\t".join(cells) + "\n" for cells in (header, *table.texts()))


def to_csv(table: Table) -> str:
    """Write RFC 4180: a header, lines that end in CRLF, quotes where they are needed."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table.columns)
    writer.writerows([to_cell(value) for value in row] for row in table.rows)
    return text.getvalue()


def fit(table: Table, width: int) -> tuple[Table, Sequence[str]]:
    """Leave out the columns on the right that a narrow terminal has no room for.

    Returns:
        The table, with its first column in any case; and the names of those left out.
    """
    first, *others = _columns(table)
    count, used = 1, first.least
    for column in others:
        used += GAP + column.least
        count += used <= width
    rows = [row[:count] for row in table.rows]
    styles = table.styles if count == len(table.columns) else ()
    return Table(table.columns[:count], rows, styles), table.columns[count:]


def to_terminal(table: Table, console: Console) -> str:
    """Draw a table as wide as the terminal, and never cut: long words wrap.

    If its columns do not fit beside one another, they go on below, beside the first one again.
    """
    with console.capture() as drawn:
        for number, part in enumerate(_parts(table, console.width)):
            console.print("\n" if number else "", end="")
            console.print(part)
    return drawn.get()


def _parts(table: Table, width: int) -> Iterator[RichTable]:
    first, *others = _columns(table)
    while True:
        count = _how_many_fit(first, others, width)
        yield _draw([first, *others[:count]], width)
        others = others[count:]
        if not others:
            return


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: its cells as text, and how they are set."""

    name: str
    cells: Sequence[str]
    styles: Sequence[str] = ()

    @property
    def width(self) -> int:
        return max(map(cell_len, (self.name, *self.cells)))

    @property
    def wraps(self) -> bool:
        """Whether it is of words, which may wrap; an id that wraps cannot be copied."""
        return self.width > WRAPPED and any(" " in cell for cell in self.cells)

    @property
    def least(self) -> int:
        return WRAPPED if self.wraps else self.width

    def texts(self) -> list[Text]:
        styles = self.styles or [""] * len(self.cells)
        return [Text(cell, style) for cell, style in zip(self.cells, styles, strict=True)]


def _columns(table: Table) -> list[_Column]:
    texts, last = table.texts(), len(table.columns) - 1
    return [
        _column(
            printable(name),
            [row[place] for row in texts],
            numeric=_is_numeric(row[place] for row in table.rows),
            styles=table.styles if place == last else (),
        )
        for place, name in enumerate(table.columns)
    ]


def _column(name: str, cells: Sequence[str], *, numeric: bool, styles: Sequence[str]) -> _Column:
    """Make a column; numbers are set here, because rich removes the spaces behind them."""
    if not numeric:
        return _Column(name, cells, styles)
    aligned = _aligned(cells)
    width = max(map(len, (name, *aligned)))
    return _Column(name.rjust(width), [number.rjust(width) for number in aligned], styles)


def _is_numeric(values: Iterable[Any]) -> bool:
    """Tell whether all are numbers, or texts that are: gateways write exact amounts as texts."""
    return all(
        value is None or is_number(value) or _AMOUNT.fullmatch(str(value)) for value in values
    )


def _aligned(numbers: Sequence[str]) -> list[str]:
    """Fill up fractions with spaces, so that the points stand one below another."""
    fractions = ["".join(number.partition(".")[1:]) for number in numbers]
    longest = max(map(len, fractions), default=0)
    return [
        number + " " * (longest - len(fraction))
        for number, fraction in zip(numbers, fractions, strict=True)
    ]


def _how_many_fit(first: _Column, others: Sequence[_Column], width: int) -> int:
    """Count the columns that fit beside the first one; at least one goes there in any case."""
    used = first.least
    for count, column in enumerate(others):
        used += GAP + column.least
        if used > width and count:
            return count
    return len(others)


def _draw(columns: Sequence[_Column], width: int) -> RichTable:
    fits = sum(column.least + GAP for column in columns) - GAP <= width
    # The box adds a column to the padding between two columns.
    drawn = RichTable(box=box.SIMPLE_HEAD, padding=(0, GAP - 1, 0, 0), pad_edge=False)
    drawn.show_edge = False
    for number, column in enumerate(columns):
        drawn.add_column(
            Text(column.name),
            style=None if number else "bold",
            overflow="fold",
            no_wrap=not column.wraps and fits,
        )
    for cells in zip(*(column.texts() for column in columns), strict=True):
        drawn.add_row(*cells)
    return drawn
