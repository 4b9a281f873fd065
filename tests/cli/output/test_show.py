import re
from typing import Any

import pytest

from gateway_sdk.cli.output.show import (
    Form,
    Table,
    find_records,
    show,
    show_done,
    show_json,
    show_records,
)
from gateway_sdk.cli.process import CommandError, OutputError


@pytest.mark.parametrize(
    ("reply", "columns", "rows", "beside"),
    [
        ([{"a": 1}], ["a"], [[1]], ""),
        ({"page": 1, "orders": [{"a": 1}], "more": None}, ["a"], [[1]], "page 1, more "),
        ({"orders": [{"a": 1}, {"b": [2], "a": None}]}, ["a", "b"], [[1, None], [None, [2]]], ""),
        ([], [], [], ""),
        ({"total": 0, "orders": []}, [], [], "total 0"),
    ],
)
def test_records_are_found(
    reply: Any, columns: list[str], rows: list[list[Any]], beside: str
) -> None:
    """A list of objects is a table, whatever it is called; single values are told beside it."""
    found = find_records(reply)

    assert found is not None
    assert (found[0].columns, found[0].rows, found[1]) == (columns, rows, beside)


@pytest.mark.parametrize(
    "reply",
    [
        None,
        "text",
        3,
        {},
        {"a": 1},
        [1],
        [{"a": 1}, 2],
        {"a": [1]},
        {"a": [{"x": 1}], "b": [{"x": 1}]},
        {"a": [{"x": 1}], "b": {"x": 1}},
    ],
)
def test_other_shapes_are_none(reply: Any) -> None:
    """Nothing of a reply is left out because it does not fit into a table."""
    assert find_records(reply) is None


AS_IT_CAME = '{\n  "a": {\n    "b": 1\n  }\n}\n'


@pytest.mark.parametrize(
    ("reply", "form", "out", "err"),
    [
        # The interface leaves replies open, so that another shape is no error.
        ({"a": {"b": 1}}, "table", AS_IT_CAME, ""),
        ({"a": {"b": 1}}, "json", AS_IT_CAME, ""),
        # Nobody wonders whether an empty output is a failure.
        ({"total": 0, "orders": []}, "table", "", "The list is empty.\n"),
        ({"total": 0, "orders": []}, "csv", "", "The list is empty.\n"),
        # What stands beside the records is no data of the table.
        ({"orders": [{"a": 1}], "note": "\x1b[2J"}, "table", "a\n1\n", "note \\x1b[2J\n"),
        ([{"a": 1}], "table", "a\n1\n", ""),
    ],
)
def test_replies_are_shown(
    capsys: pytest.CaptureFixture[str], reply: Any, form: Form, out: str, err: str
) -> None:
    show_records(reply, form)

    assert capsys.readouterr() == (out, err)


def test_other_shapes_are_no_csv() -> None:
    """A program that wants columns is told that there are none."""
    with pytest.raises(CommandError) as caught:
        show_records({"a": 1}, "csv")

    assert caught.value.status == 4
    assert "--json" in str(caught.value)


def test_bytes_are_printed_as_they_are(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A gateway may reply with a document."""
    show_json(b"%PDF\x00\xff")

    assert capfdbinary.readouterr().out == b"%PDF\x00\xff"


def test_what_is_done_is_said_before_the_reply(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty reply prints nothing."""
    show_done("Done.", {"id": 1})
    show_done("Done again.", None)

    assert capsys.readouterr() == ('{\n  "id": 1\n}\n', "Done.\nDone again.\n")


def test_reply_that_cannot_be_printed_does_not_undo_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk after a write says that it is done, so that nobody repeats it."""

    def fail(_: object) -> None:
        raise OutputError("cannot write the output: No space left on device", 1)

    monkeypatch.setattr("gateway_sdk.cli.output.show.write_out", fail)
    with pytest.raises(OutputError) as caught:
        show_done("The customer is created.", {"id": 1})

    assert caught.value.status == 6
    assert str(caught.value).splitlines() == [
        "cannot write the output: No space left on device",
        "It was done, so do not repeat it; only the reply is lost.",
    ]
    assert capsys.readouterr().err == "The customer is created.\n"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("60", "No room for: d.\nA wider terminal shows all, and so does `| cat`.\n"),
        ("70", ""),
        ("200", ""),
    ],
)
def test_narrow_terminal_says_what_it_leaves_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: str, said: str
) -> None:
    """Ids stay in one piece, and no line runs over."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")  # a dumb one counts as 80 columns wide
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    table = Table(tuple("abcd"), [[letter * 15 for letter in "abcd"]])

    show(table, None, "table")

    shown = capsys.readouterr()
    assert shown.err == said
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown.out)
    assert max(map(len, plain.splitlines())) <= int(columns)
    assert "c" * 15 in shown.out
