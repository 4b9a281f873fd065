"""Pasting into a terminal that shows nothing, and into what is no terminal."""

import asyncio
import os
import pty
import re
import subprocess
import sys
import termios
import textwrap
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from gateway_sdk.auth import PasteFromTerminal, terminal
from gateway_sdk.errors import ConfigurationError
from tests.auth.traces import no_traces

ADDRESS = "http://127.0.0.1:7/callback#access_token=CANARY&state=xyz"
LONG = f"{ADDRESS}{'x' * 20_000}"


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


class Input:
    """A standard input that is a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def fileno(self) -> int:
        """Return the descriptor."""
        return self.descriptor


class Screen:
    """A terminal, from the side of the person before it."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.mode = termios.tcgetattr(self.theirs)

    def is_as_before(self) -> bool:
        """Tell whether the terminal is in the mode that it was in."""
        return termios.tcgetattr(self.theirs) == self.mode

    async def type(self, text: str) -> None:
        """Send keys; a long text waits until it is read."""
        keys = text.encode()
        while keys:
            sent = await asyncio.to_thread(os.write, self.ours, keys)
            keys = keys[sent:]

    def shown(self) -> str:
        """Return what the screen shows so far."""
        os.write(self.theirs, b"<end>")
        seen = b""
        while not seen.endswith(b"<end>"):
            seen += os.read(self.ours, 65536)
        return seen.decode().removesuffix("<end>")

    def close(self) -> None:
        """Close both sides."""
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """Provide a terminal that is the standard input."""
    made = Screen()
    monkeypatch.setattr("sys.stdin", Input(made.theirs))
    yield made
    made.close()


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Provide what writes into a pipe that is the standard input; nothing closes it."""
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
    """Provide what makes a file with this content the standard input."""
    opened: list[int] = []

    def make(data: bytes) -> None:
        path = tmp_path / "pasted"
        path.write_bytes(data)
        opened.append(os.open(path, os.O_RDONLY))
        monkeypatch.setattr("sys.stdin", Input(opened[-1]))

    yield make
    for descriptor in opened:
        os.close(descriptor)


async def reading(paste: PasteFromTerminal) -> asyncio.Task[str]:
    """Start to read a line, and return when the terminal is ready for it."""
    task = asyncio.create_task(_line(paste))
    await asyncio.sleep(0)
    return task


async def _line(paste: PasteFromTerminal) -> str:
    return await paste()


@pytest.mark.parametrize("enter", ["\r", "\n"])
@pytest.mark.parametrize("text", [ADDRESS, LONG, ""], ids=["short", "long", "empty"])
async def test_a_line_comes_whole_and_unseen(screen: Screen, text: str, enter: str) -> None:
    """A pasted line is not shown, and may be longer than a terminal's own line can be."""
    task = await reading(PasteFromTerminal())
    await screen.type(text + enter)

    assert await task == text
    assert screen.shown() == ""
    assert screen.is_as_before()


async def test_the_terminal_shows_and_stops_as_before(screen: Screen) -> None:
    """While it reads, only echo and line mode are off: Ctrl-C still stops the program."""
    task = await reading(PasteFromTerminal())
    now = termios.tcgetattr(screen.theirs)
    await screen.type("x\r")
    await task

    lost = termios.ECHO | termios.ICANON
    assert screen.mode[3] & lost == lost
    assert now[3] == screen.mode[3] & ~lost
    assert now[3] & termios.ISIG
    assert [*now[:3], *now[4:6]] == [*screen.mode[:3], *screen.mode[4:6]]


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("abd\x7fc\r", "abc"),
        ("abd\bc\r", "abc"),
        ("\x7f\x7fabc\r", "abc"),
        ("wrong\x15abc\r", "abc"),
        ("\x15\x15abc\r", "abc"),
        ("abc\x04", "abc"),
        ("wrong\x15\x15abc\x04", "abc"),
        ("a b\tc\r", "a b\tc"),
        ("ä€\r", "ä€"),
    ],
)
async def test_keys_edit_the_line(screen: Screen, keys: str, line: str) -> None:
    """Backspace, Ctrl-U and Ctrl-D do what they do in a terminal's own line."""
    task = await reading(PasteFromTerminal())
    await screen.type(keys)

    assert await task == line
    assert screen.shown() == ""


@pytest.mark.parametrize("keys", ["\x04", "abc\x15\x04", "abc\x7f\x7f\x7f\x04"])
async def test_the_end_of_the_input_on_an_empty_line(screen: Screen, keys: str) -> None:
    """Ctrl-D on an empty line is the end of the input, and the terminal is as before."""
    task = await reading(PasteFromTerminal())
    await screen.type(keys)

    with pytest.raises(EOFError):
        await task
    assert screen.is_as_before()


async def test_a_cancelled_paste_leaves_the_terminal_as_it_was(screen: Screen) -> None:
    """Where the browser was faster, the terminal echoes again and nobody waits for its keys."""
    task = await reading(PasteFromTerminal())
    assert not screen.is_as_before()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert screen.is_as_before()
    assert not asyncio.get_running_loop().remove_reader(screen.theirs)


async def test_a_terminal_that_goes_away_is_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A window that is closed is the end of the input, and there is no mode to go back to."""
    gone = Screen()
    monkeypatch.setattr("sys.stdin", Input(gone.theirs))
    task = await reading(PasteFromTerminal())
    os.close(gone.ours)

    with pytest.raises(EOFError):
        await task
    os.close(gone.theirs)


async def test_two_lines_at_once_are_two_pastes(screen: Screen) -> None:
    """What comes behind a line is kept for the next call, of the same object."""
    paste = PasteFromTerminal()
    task = await reading(paste)
    await screen.type("one\rtwo\rth")
    assert await task == "one"
    assert await paste() == "two"
    task = await reading(paste)
    await screen.type("ree\r")

    assert await task == "three"
    assert screen.shown() == ""


async def test_a_pipe_is_read_line_by_line(pipe: Callable[[bytes], None]) -> None:
    """What is no terminal is read as it comes, and its last line needs no end."""
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
    """A file is always readable, which event loops do not wait for."""
    file(f"{LONG}\n\nthree".encode())
    paste = PasteFromTerminal()

    assert [await paste() for _ in range(3)] == [LONG, "", "three"]
    with pytest.raises(EOFError):
        await paste()


async def test_a_line_without_end_is_cut(file: Callable[[bytes], None]) -> None:
    """What is longer than any answer does not fill the memory."""
    file(b"x" * 200_000 + b"\nnext\n")
    paste = PasteFromTerminal()

    assert await paste() == "x" * 128 * 1024
    assert await paste() == "next"


async def test_bytes_that_are_no_text_are_replaced(file: Callable[[bytes], None]) -> None:
    """A line that is no UTF-8 is a wrong address, and no crash."""
    file(b"http://\xff\n")

    assert await PasteFromTerminal()() == "http://\N{REPLACEMENT CHARACTER}"


def test_a_system_without_such_terminals_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows it cannot be made, and the error says what to do."""
    monkeypatch.setattr(terminal, "find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match="log in with a browser"):
        PasteFromTerminal()


INTERRUPTED = """
    import asyncio, os, sys, termios
    from gateway_sdk.auth import PasteFromTerminal

    os.login_tty(int(sys.argv[1]))
    before = termios.tcgetattr(0)

    async def main():
        asyncio.get_running_loop().call_soon(lambda: print("ready", flush=True))
        await PasteFromTerminal()()

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("stopped", termios.tcgetattr(0) == before)
"""


def test_ctrl_c_stops_the_program(screen: Screen) -> None:
    """Ctrl-C interrupts a program that waits for a paste, and the terminal is as before."""
    program = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(screen.theirs)]
    with subprocess.Popen(program, pass_fds=[screen.theirs]) as process:
        seen = b""
        while b"ready" not in seen:
            seen += os.read(screen.ours, 100)
        os.write(screen.ours, b"\x03")
        while not re.search(rb"stopped \w+", seen):
            seen += os.read(screen.ours, 100)

    assert b"stopped True" in seen
    assert process.returncode == 0
