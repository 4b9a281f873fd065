import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_sdk.cli.content import open_content, read_json
from gateway_sdk.cli.failure import CommandError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_json_is_read_as_it_is(value: Any) -> None:
    """Whatever another program writes arrives, whether it marks the order of bytes or not."""
    with tempfile.NamedTemporaryFile() as file:
        for mark in ("", "\ufeff"):
            Path(file.name).write_bytes(f"{mark}{json.dumps(value)}".encode())

            assert read_json(file.name) == value


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b'{"a": 1,\n "b" 2}',
            "x.json, line 2, column 6: this is not JSON: Expecting ':' delimiter",
        ),
        (b"", "x.json is empty"),
        (b'{"a": 1} canary', "x.json, line 1, column 10: this is not JSON: Extra data"),
        (b'{"a": "\xff"}', "x.json is not UTF-8: byte 8 is wrong"),
        (b'{"pin": 1, "pin": 2}', "the file has pin twice in one object"),
        (b'{"\\u001b[2J": 1, "\\u001b[2J": 2}', "the file has \\x1b[2J twice in one object"),
        (b"[" * 200_000, "x.json is nested too deeply, or has a number with too many digits"),
        (b"1" * 5000, "x.json is nested too deeply, or has a number with too many digits"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, words: str
) -> None:
    """Line and column, or the name that is there twice; never a value."""
    monkeypatch.chdir(tmp_path)
    Path("x.json").write_bytes(content)

    with pytest.raises(CommandError) as caught:
        read_json("x.json")

    assert str(caught.value) == f"{words}\nNothing was sent."
    assert caught.value.status == 2
    assert "canary" not in str(caught.value)


def test_file_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read until the memory is full."""
    monkeypatch.setattr("gateway_sdk.cli.content.LARGEST", 2**20)

    with pytest.raises(CommandError, match=r"^/dev/zero is larger than 1 MiB"):
        read_json("/dev/zero")


@pytest.mark.parametrize("read", [read_json, open_content])
@pytest.mark.parametrize(("name", "why"), [("nothing", "No such file"), ("", "Is a directory")])
def test_file_that_cannot_be_read_is_named(
    tmp_path: Path, read: Callable[[str], object], name: str, why: str
) -> None:
    """With the system's reason, and the word that nothing was sent."""
    path = str(tmp_path / name)

    with pytest.raises(CommandError) as caught:
        read(path)

    assert str(caught.value).startswith(f"cannot read {path}: {why}")
    assert str(caught.value).endswith("\nNothing was sent.")


@pytest.mark.parametrize("read", [read_json, open_content])
def test_error_of_the_system_without_words_is_named(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[str], object]
) -> None:
    """A file that is not readable is told even if the system gives no reason."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CommandError, match="cannot read private: PermissionError"):
        read("private")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="it is Linux's")
def test_file_that_breaks_while_it_is_read_is_named() -> None:
    """An error that comes only with the reading is told like one of the opening."""
    with pytest.raises(CommandError, match="cannot read /proc/self/mem: Input/output error"):
        read_json("/proc/self/mem")


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A "-" stands for it, and errors call it by its name."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[1]")))
    assert read_json("-") == [1]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[1")))
    with pytest.raises(CommandError, match=r"^standard input, line 1, column 3"):
        read_json("-")


def test_standard_input_may_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that was started without one says so."""
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(CommandError, match="no standard input"):
        read_json("-")


def test_pipe_can_be_uploaded(tmp_path: Path) -> None:
    """What a shell makes of <(command) is opened, for it can be read only once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b"data")

    content = open_content(str(pipe))

    assert not isinstance(content, Path | bytes)
    with content:
        os.close(writer)
        assert content.read() == b"data"


def test_file_is_uploaded_by_its_path(tmp_path: Path) -> None:
    """Then its length is known, and it can be sent again where that does no harm."""
    (tmp_path / "x").touch()

    assert open_content(str(tmp_path / "x")) == tmp_path / "x"
