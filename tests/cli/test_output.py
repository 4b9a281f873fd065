import csv
import io
import json
import os
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gateway_sdk.cli.output import (
    Table,
    describe_moment,
    make_console,
    print_key_values,
    show_done,
    show_in_terminal,
    show_json,
    show_records,
    to_cell,
    to_csv,
    to_json,
)
from gateway_sdk.cli.process import CommandError, printable

FULL = Path("/dev/full")
PATH = "/folder" * 20


def test_facts_stand_on_one_line_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path that is longer than the terminal can be copied as it stands."""
    monkeypatch.setenv("COLUMNS", "40")
    print_key_values(("Kept in", PATH), ("Client", " "))

    assert capsys.readouterr().out.splitlines() == [f"Kept in    {PATH}", "Client      "]


NOON = 1_800_014_400.0  # 2027-01-15 12:00 UTC


@pytest.mark.parametrize(
    ("moment", "written"),
    [
        (NOON, "2027-01-15 12:00:00 UTC, in 0:00:00"),
        (NOON - 90, "2027-01-15 11:58:30 UTC, 0:01:30 ago"),
    ],
)
def test_moment_is_in_utc_and_relative_to_now(moment: float, written: str) -> None:
    assert describe_moment(moment, NOON) == written


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.decimals(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_json_is_exactly_the_value(value: Any) -> None:
    """What is read back is what was written, each digit of each number included."""
    assert json.loads(to_json(value), parse_float=Decimal) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"é": "\x9b\x7f"}, '{"é": "\\u009b\\u007f"}'),
        (["\u202e a\u2028\U000e0001\ufeff"], '["\\u202e a\\u2028\\udb40\\udc01\\ufeff"]'),
    ],
)
def test_json_is_readable_and_harmless(value: Any, text: str) -> None:
    assert to_json(value, indent=None) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (12, "12"),
        ("text", "text"),
        (Decimal("1E+2"), "100"),
        (Decimal("1.50"), "1.50"),
        (Decimal("1E-7"), "0.0000001"),
        (Decimal("1E+1000000"), "1E+1000000"),
        (Decimal("NaN"), "NaN"),
        (["a", 1], '["a", 1]'),
        ({"a": Decimal("1.0")}, '{"a": 1.0}'),
    ],
)
def test_cells_are_text_on_one_line(value: Any, text: str) -> None:
    """Numbers are plain unless that takes a page, nothing is empty, what is nested is JSON."""
    assert to_cell(value) == text


@given(st.text())
def test_no_text_steers_a_terminal(text: str) -> None:
    """Whatever comes in, what comes out is one line without control characters."""
    shown = printable(text)

    assert len(shown.splitlines()) <= 1
    assert shown.isprintable()
    shown.encode()  # no half of a character


OTHER_SHAPES: list[Any] = [
    *(None, "text", {"a": 1}, [{"a": 1}, 2]),
    *({"a": [{"x": 1}], "b": [{"x": 1}]}, {"a": [{"x": 1}], "b": {"x": 1}}),
]


@pytest.mark.parametrize(
    ("reply", "form", "out", "err"),
    [
        # A list of objects is a table, whatever it is called; single values are told beside it.
        ([{"a": 1}], "table", "a\n1\n", ""),
        ([{"a": 1}, {"b": [2], "a": None}], "table", "a\tb\n1\t\n\t[2]\n", ""),
        ({"page": 1, "orders": [{"a": 1}], "more": None}, "table", "a\n1\n", "page 1, more \n"),
        ({"orders": [{"a": 1}], "note": "\x1b[2J"}, "csv", "a\r\n1\r\n", "note \\x1b[2J\n"),
        # Nobody wonders whether an empty output is a failure.
        ({"total": 0, "orders": []}, "csv", "", "The list is empty.\n"),
        ([{"a": 1}], "json", '[\n  {\n    "a": 1\n  }\n]\n', ""),
        # Nothing of a reply is left out because it does not fit into a table.
        *((reply, "table", f"{to_json(reply)}\n", "") for reply in OTHER_SHAPES),
    ],
)
def test_replies_are_shown(
    capsys: pytest.CaptureFixture[str], reply: Any, form: str, out: str, err: str
) -> None:
    show_records(reply, form)

    assert capsys.readouterr() == (out, err)


def test_bytes_are_printed_as_they_are(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A gateway may reply with a document."""
    show_json(b"%PDF\x00\xff")

    assert capfdbinary.readouterr().out == b"%PDF\x00\xff"


@pytest.mark.skipif(not FULL.exists(), reason="a disk that is always full is Linux's")
@pytest.mark.parametrize("why", ["No space left on device", "its reader has left"])
def test_reply_that_cannot_be_printed_does_not_undo_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], why: str
) -> None:
    """After a write it is said that it is done, so that nobody repeats it."""
    place: int | Path = FULL
    if "reader" in why:
        reading, place = os.pipe()
        os.close(reading)
    with open(place, "w", encoding="utf-8") as lost:  # noqa: PTH123 - or a descriptor
        monkeypatch.setattr("sys.stdout", lost)
        with pytest.raises(CommandError) as caught:
            show_done("The customer is created.", {"id": 1})

    assert caught.value.status == 6
    assert str(caught.value).splitlines() == [
        f"cannot write the output: {why}",
        "It was done, so do not repeat it; only the reply is lost.",
    ]
    assert capsys.readouterr().err == "The customer is created.\n"


ORDERS = Table(
    ("orderId", "note", "quantity", "createdAt"),
    [
        ["order-1", None, Decimal("1.50"), "2026-09-22T21:05:37.000Z"],
        ["order-2", "tab\tand\nline", 12, "2026-09-22T21:05:37.000Z"],
    ],
)


def draw(table: Table, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Draw a table in a terminal of so many columns, without colours."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    console = make_console()
    with console.capture() as shown:
        show_in_terminal(table, console)
    return [line.rstrip() for line in shown.get().splitlines()]


def test_csv_is_that_of_rfc_4180() -> None:
    rows = [['say "hi", you', "two\r\nlines"], ["", "1"]]

    text = to_csv(Table(("a", "b"), rows), "csv")

    assert text == 'a,b\r\n"say ""hi"", you","two\r\nlines"\r\n,1\r\n'
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["a", "b"], *rows]


def test_the_status_of_an_order_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time and the customer are left out before it, as few of them as possible."""
    names = ("orderId", "customerId", "pair", "status", "createdAt")
    table = Table(names, [["o" * 10, "c" * 10, "EUR/USD", "cancelled", "t" * 24]])

    shown = {width: draw(table, width, monkeypatch)[0].split() for width in (70, 60, 40, 24)}

    assert shown[70] == [*names]
    assert shown[60] == [*names[:4]]
    assert shown[40] == ["orderId", "pair", "status"]
    assert shown[24] == ["orderId", "pair"]


def test_words_wrap_and_ids_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text takes more lines, so that a long id stays in one piece."""
    table = Table(("id", "text"), [["i" * 40, "some words " * 8]])

    drawn = draw(table, 80, monkeypatch)

    assert "i" * 40 in drawn[2]
    assert len(drawn) > 3
    assert " ".join(line[42:] for line in drawn[2:]).split() == ["some", "words"] * 8


def test_word_that_is_wider_than_the_terminal_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw(Table(("id", "hash"), [["x", "h" * 200]]), 66, monkeypatch)

    assert sum(line.count("h") for line in drawn[2:]) == 200


@pytest.mark.parametrize(
    ("table", "lines"),
    [
        (
            ORDERS,
            [
                "orderId  note            quantity  createdAt",
                "order-1                      1.50  2026-09-22T21:05:37.000Z",
                "order-2  tab\\tand\\nline     12     2026-09-22T21:05:37.000Z",
            ],
        ),
        # Decimal points stand below each other, also of texts, and below a long heading.
        (
            Table(("a long heading",), [[Decimal("1.5")], ["-120.25"], [None], ["3"]]),
            ["a long heading", "          1.5", "       -120.25", "", "          3"],
        ),
        # Only numbers, and texts that are numbers, stand to the right.
        (
            Table(("switch", "amount"), [[True, "1.5"], [False, "-10"]]),
            ["switch  amount", "true       1.5", "false    -10"],
        ),
        # The header stands in any case.
        (Table(("name",), []), ["name"]),
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
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, kept: int
) -> None:
    """Those on the right are left out and named; no id is broken."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")

    left_out = show_in_terminal(ORDERS, make_console())
    shown = capsys.readouterr().out

    assert tuple(left_out) == ORDERS.columns[kept:], "as they are called, without padding"
    assert len(shown.splitlines()[2:]) == 2 or columns == 3
    assert all(re.search(rf"\b{name}\b", shown) for name in ORDERS.columns[:kept]) or columns == 3


def test_excel_gets_a_mark_of_its_encoding_and_no_formulas() -> None:
    table = Table(("name", "amount"), [("=1+1", Decimal("-1.50")), ("Zoë", "+43"), (None, "@x")])

    assert to_csv(table, "excel") == "\ufeffname,amount\r\n'=1+1,-1.50\r\nZoë,+43\r\n,'@x\r\n"
    assert to_csv(table, "csv") == "name,amount\r\n=1+1,-1.50\r\nZoë,+43\r\n,@x\r\n"
