"""Pasting into a terminal, which does not show it."""

import asyncio
import os
import re
import subprocess
import sys
import termios
import textwrap
from collections.abc import AsyncIterator, Iterator

import pytest

from gateway_sdk.auth import PasteFromTerminal, _login
from gateway_sdk.errors import ConfigurationError
from tests.auth.screens import ADDRESS, LONG, Input, Screen, reading
from tests.auth.traces import no_traces


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    """Provide a terminal as standard input."""
    made = Screen()
    monkeypatch.setattr("sys.stdin", Input(made.theirs))
    yield made
    made.close()


@pytest.mark.parametrize("enter", ["\r", "\n"])
@pytest.mark.parametrize("text", [ADDRESS, LONG], ids=["short", "long"])
async def test_a_line_is_complete_and_not_shown(screen: Screen, text: str, enter: str) -> None:
    """A pasted line is not shown, and may be longer than a line of the terminal's line mode."""
    task = await reading(PasteFromTerminal())
    await screen.type(text + enter)

    assert await task == text
    assert screen.shown() == ""
    assert screen.is_as_before()


async def test_the_terminal_shows_and_stops_as_before(screen: Screen) -> None:
    """While reading, only echo and line mode are off: Ctrl-C still stops the program."""
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
    """Backspace, Ctrl-U and Ctrl-D act as in the terminal's line mode."""
    task = await reading(PasteFromTerminal())
    await screen.type(keys)

    assert await task == line
    assert screen.shown() == ""


@pytest.mark.parametrize("keys", ["\x04", "abc\x15\x04", "abc\x7f\x7f\x7f\x04"])
async def test_the_end_of_the_input_on_an_empty_line(screen: Screen, keys: str) -> None:
    """Ctrl-D on an empty line ends the input, and the terminal is restored."""
    task = await reading(PasteFromTerminal())
    await screen.type(keys)

    with pytest.raises(EOFError):
        await task
    assert screen.is_as_before()


async def test_a_cancelled_paste_leaves_the_terminal_as_it_was(screen: Screen) -> None:
    """If the browser was faster, the terminal echoes again and its input is not read."""
    task = await reading(PasteFromTerminal())
    assert not screen.is_as_before()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert screen.is_as_before()
    assert not asyncio.get_running_loop().remove_reader(screen.theirs)


async def test_a_closed_terminal_is_the_end_of_the_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A closed window is the end of the input, and there is no mode to restore."""
    gone = Screen()
    monkeypatch.setattr("sys.stdin", Input(gone.theirs))
    task = await reading(PasteFromTerminal())
    os.close(gone.ours)

    with pytest.raises(EOFError):
        await task
    os.close(gone.theirs)


async def test_two_lines_at_once_are_two_pastes(screen: Screen) -> None:
    """Text after a line is kept for the next call of the same object."""
    paste = PasteFromTerminal()
    task = await reading(paste)
    await screen.type("one\rtwo\rth")
    assert await task == "one"
    assert await paste() == "two"
    task = await reading(paste)
    await screen.type("ree\r")

    assert await task == "three"
    assert screen.shown() == ""


def test_a_system_without_posix_terminals_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows it cannot be created, and the error gives the way out."""
    monkeypatch.setattr(_login, "find_spec", lambda name: None)

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
    """Ctrl-C interrupts a program that waits for a paste, and the terminal is restored."""
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
