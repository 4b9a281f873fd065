"""Pasting from other inputs than a terminal: a pipe, an ordinary file."""

import io
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from gateway_sdk import ConfigurationError
from gateway_sdk.auth import PasteFromTerminal
from tests.auth.screens import LONG, Input, reading
from tests.auth.traces import no_traces


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Provide a function that writes into a pipe that is the standard input; it stays open."""
    reading, writing = os.pipe()
    monkeypatch.setattr("sys.stdin", Input(reading))

    def write(data: bytes) -> None:
        if data:
            os.write(writing, data)
        else:
            os.close(writing)

    yield write
    os.close(reading)


@pytest.fixture
def file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[bytes], None]]:
    """Provide a function that makes a file with this content the standard input."""
    opened: list[int] = []

    def make(data: bytes) -> None:
        path = tmp_path / "pasted"
        path.write_bytes(data)
        opened.append(os.open(path, os.O_RDONLY))
        monkeypatch.setattr("sys.stdin", Input(opened[-1]))

    yield make
    for descriptor in opened:
        os.close(descriptor)


async def test_a_pipe_is_read_line_by_line(pipe: Callable[[bytes], None]) -> None:
    """A pipe is read as text comes, and its last line needs no end."""
    paste = PasteFromTerminal()
    pipe(b"one\ntwo\nth")
    assert [await paste(), await paste()] == ["one", "two"]
    task = await reading(paste)
    assert not task.done()
    pipe(b"ree")
    pipe(b"")

    assert await task == "three"
    for _ in range(2):
        with pytest.raises(EOFError):
            await paste()


async def test_an_ordinary_file_is_read_line_by_line(file: Callable[[bytes], None]) -> None:
    """A file is always readable, which event loops cannot wait for; empty lines are skipped."""
    file(f"\n{LONG}\r\n\nthree".encode())
    paste = PasteFromTerminal()

    assert [await paste() for _ in range(2)] == [LONG, "three"]
    with pytest.raises(EOFError):
        await paste()


async def test_a_line_without_end_is_cut(file: Callable[[bytes], None]) -> None:
    """A line that is longer than any response does not fill the memory."""
    file(b"x" * 200_000 + b"\nnext\n")
    paste = PasteFromTerminal()

    assert await paste() == "x" * 128 * 1024
    assert await paste() == "next"


async def test_bytes_that_are_no_text_are_replaced(file: Callable[[bytes], None]) -> None:
    """A line that is not UTF-8 is a wrong URL, not a crash."""
    file(b"http://\xff\n")

    assert await PasteFromTerminal()() == "http://\N{REPLACEMENT CHARACTER}"


async def test_no_standard_input_is_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process without standard input has no line to read."""
    monkeypatch.setattr("sys.stdin", None)

    with pytest.raises(EOFError):
        await PasteFromTerminal()()


async def test_a_closed_standard_input_is_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may close its standard input; no line follows."""
    closed = (tmp_path / "input").open("w+")
    closed.close()
    monkeypatch.setattr("sys.stdin", closed)

    with pytest.raises(EOFError):
        await PasteFromTerminal()()


@pytest.mark.parametrize("replaced", [io.StringIO("http://127.0.0.1/"), object()])
async def test_an_input_that_is_no_file_is_refused(
    replaced: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook replaces the standard input by an object without a descriptor."""
    monkeypatch.setattr("sys.stdin", replaced)

    with pytest.raises(ConfigurationError, match="a terminal or a pipe"):
        await PasteFromTerminal()()
