import csv
import io
import re
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from gateway_sdk.cli.output.console import make_console
from gateway_sdk.cli.output.show import Table, to_csv, to_lines, to_terminal

ORDERS = Table(
    ("orderId", "note", "quantity", "createdAt"),
    [
        ["order-1", None, Decimal("1.50"), "2026-09-22T21:05:37.000Z"],
        ["order-2", "tab\tand\nline", 12, "2026-09-22T21:05:37.000Z"],
    ],
)

CELLS = st.text(st.characters(codec="utf-8"), max_size=5)


def draw(table: Table, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Draw a table in a terminal of so many columns, without colours."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    return [line.rstrip() for line in to_terminal(table, make_console())[0].splitlines()]


def test_lines_have_a_header_and_tabs() -> None:
    """Each row is one line, and a tab or line break inside of a cell shows as an escape."""
    assert to_lines(ORDERS) == (
        "orderId\tnote\tquantity\tcreatedAt\n"
        "order-1\t\t1.50\t2026-09-22T21:05:37.000Z\n"
        "order-2\ttab\\tand\\nline\t12\t2026-09-22T21:05:37.000Z\n"
    )


def test_csv_is_that_of_rfc_4180() -> None:
    """Lines end in CRLF, and quotes keep commas, quotes and line breaks in their cell."""
    table = Table(("a", "b"), [['say "hi", you', "two\r\nlines"], [None, 1]])

    assert to_csv(table) == 'a,b\r\n"say ""hi"", you","two\r\nlines"\r\n,1\r\n'


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2)))
def test_csv_is_read_back_as_it_was(rows: list[list[str]]) -> None:
    """No text is changed, whatever it holds."""
    text = io.StringIO(to_csv(Table(("a", "b"), rows)), newline="")

    assert list(csv.reader(text)) == [["a", "b"], *rows]


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2)))
def test_lines_are_as_many_as_rows(rows: list[list[str]]) -> None:
    """Whatever a gateway sends, a row is a line, and a cell is between tabs."""
    lines = to_lines(Table(("a", "b"), rows)).split("\n")

    assert len(lines) == len(rows) + 2
    assert {line.count("\t") for line in lines[:-1]} == {1}


def test_table_that_fits_is_drawn_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers have their points one below another, the rest is to the left."""
    assert draw(ORDERS, 80, monkeypatch) == [
        "orderId  note            quantity  createdAt",
        "─" * 59,
        "order-1                      1.50  2026-09-22T21:05:37.000Z",
        "order-2  tab\\tand\\nline     12     2026-09-22T21:05:37.000Z",
    ]


def test_words_wrap_and_ids_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text takes more lines, so that a long id stays in one piece."""
    table = Table(("id", "text"), [["i" * 40, "some words " * 8]])

    drawn = draw(table, 80, monkeypatch)

    assert "i" * 40 in drawn[2]
    assert len(drawn) > 3
    assert " ".join(line[42:] for line in drawn[2:]).split() == ["some", "words"] * 8


def test_word_that_is_wider_than_the_terminal_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even then every character is there."""
    drawn = draw(Table(("id", "hash"), [["x", "h" * 200]]), 66, monkeypatch)

    assert sum(line.count("h") for line in drawn[2:]) == 200


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        # Only numbers, and texts that are numbers, stand to the right.
        (
            Table(("switch", "amount"), [[True, "1.5"], [False, "-10"]]),
            ["switch  amount", "true       1.5", "false    -10"],
        ),
        # The header stands in any case.
        (Table(("name",), []), ["name"]),
        (Table(("name",), [["only"]]), ["name", "only"]),
        # Brackets of a gateway are shown, and take no effect.
        (
            Table(("[bold]",), [["[red]x[/red] :smile: \x1b[31m"]]),
            ["[bold]", "[red]x[/red] :smile: \\x1b[31m"],
        ),
    ],
)
def test_cells_are_drawn(monkeypatch: pytest.MonkeyPatch, table: Table, lines: list[str]) -> None:
    drawn = draw(table, 80, monkeypatch)

    assert [drawn[0], *drawn[2:]] == lines


@pytest.mark.posix  # rich makes a console of Windows one narrower
@pytest.mark.parametrize(("columns", "kept"), [(59, 4), (58, 3), (33, 3), (32, 2), (23, 2), (3, 2)])
def test_terminal_has_the_columns_that_fit(
    monkeypatch: pytest.MonkeyPatch, columns: int, kept: int
) -> None:
    """Those on the right are left out and named; no id is broken."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")

    shown, left_out = to_terminal(ORDERS, make_console(fewest_columns=1))

    assert tuple(left_out) == ORDERS.columns[kept:], "as they are called, without padding"
    assert len(shown.splitlines()[2:]) == 2 or columns == 3
    assert all(re.search(rf"\b{name}\b", shown) for name in ORDERS.columns[:kept]) or columns == 3
