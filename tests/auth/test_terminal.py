"""Pasting into a terminal, which does not show it, and from other inputs."""

import asyncio
import io
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway_sdk import ConfigurationError, _terminal
from gateway_sdk.auth import PasteFromTerminal

if sys.platform != "win32":
    import pty
    import termios

pytestmark = pytest.mark.usefixtures("traceless")
posix = pytest.mark.posix

ADDRESS = "http://127.0.0.1:7/callback#access_token=CANARY&state=xyz"
LONG = f"{ADDRESS}{'x' * 5000}"  # longer than a line of the terminal's line mode


class Screen:
    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.mode = termios.tcgetattr(self.theirs)

    def is_as_before(self) -> bool:
        return termios.tcgetattr(self.theirs) == self.mode

    async def type(self, text: str) -> None:
        """Send keys; a long text waits until it is read."""
        keys = text.encode()
        while keys:
            sent = await asyncio.to_thread(os.write, self.ours, keys)
            keys = keys[sent:]

    def shown(self) -> str:
        os.write(self.theirs, b"<end>")
        seen = b""
        while not seen.endswith(b"<end>"):
            seen += os.read(self.ours, 65536)
        return seen.decode().removesuffix("<end>")


def be_input(monkeypatch: pytest.MonkeyPatch, descriptor: int) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(fileno=lambda: descriptor))


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    made = Screen()
    be_input(monkeypatch, made.theirs)
    yield made
    os.close(made.ours)
    os.close(made.theirs)


async def reading(paste: PasteFromTerminal) -> asyncio.Task[str]:
    """Start to read a line, and return when the terminal is ready."""

    async def line() -> str:
        return await paste()

    task = asyncio.create_task(line())
    await asyncio.sleep(0)
    return task


@posix
@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (f"{ADDRESS}\r", ADDRESS),
        (f"{LONG}\n", LONG),
        ("abd\x7fc\r", "abc"),
        ("\x7f\x7fabc\r", "abc"),
        ("abc\x04", "abc"),
        ("ä€\r", "ä€"),
        ("\x04", None),
    ],
)
async def test_a_line_is_not_shown(screen: Screen, keys: str, line: str | None) -> None:
    """Ctrl-D acts as in line mode: on an empty line, it is the end."""
    task = await reading(PasteFromTerminal())
    await screen.type(keys)
    if line is None:
        with pytest.raises(EOFError):
            await task
    else:
        assert await task == line
    assert screen.shown() == ""
    assert screen.is_as_before()


@posix
async def test_a_cancelled_paste_leaves_the_terminal_as_it_was(screen: Screen) -> None:
    """Until then only echo and line mode are off, so that Ctrl-C still stops the program."""
    task = await reading(PasteFromTerminal())
    now = termios.tcgetattr(screen.theirs)
    lost = termios.ECHO | termios.ICANON
    assert screen.mode[3] & lost == lost
    assert now[3] == screen.mode[3] & ~lost
    assert now[3] & termios.ISIG
    assert [*now[:3], *now[4:6]] == [*screen.mode[:3], *screen.mode[4:6]]
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert screen.is_as_before()
    assert not asyncio.get_running_loop().remove_reader(screen.theirs)


@posix
@pytest.mark.parametrize("heard", [None, []])
async def test_a_line_stays_unseen_after_a_stop(screen: Screen, heard: list[int] | None) -> None:
    """A shell's `fg` switches echo and line mode on; a handler of the program is called, too."""
    handler = signal.SIG_DFL if heard is None else lambda number, _: heard.append(number)
    signal.signal(signal.SIGCONT, handler)
    task = await reading(PasteFromTerminal())
    termios.tcsetattr(screen.theirs, termios.TCSANOW, screen.mode)
    signal.raise_signal(signal.SIGCONT)
    await screen.type(f"{LONG}\r")
    assert await task == LONG
    assert screen.shown() == ""
    assert screen.is_as_before()
    assert signal.signal(signal.SIGCONT, signal.SIG_DFL) == handler
    assert heard in (None, [signal.SIGCONT])


@posix
async def test_a_thread_pastes_too(screen: Screen) -> None:
    pasting = asyncio.to_thread(lambda: asyncio.run(PasteFromTerminal()()))
    os.write(screen.ours, b"abc\r")
    assert await pasting == "abc"
    assert screen.is_as_before()


@posix
async def test_a_closed_terminal_is_the_end_of_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Screen()
    be_input(monkeypatch, gone.theirs)
    task = await reading(PasteFromTerminal())
    os.close(gone.ours)
    with pytest.raises(EOFError):
        await task
    os.close(gone.theirs)


@pytest.mark.parametrize("by_loop", [pytest.param(True, marks=posix), False])
@pytest.mark.parametrize("is_file", [False, True])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (f"\n{LONG}\r\n\nthree".encode(), [LONG, "three"]),  # empty lines are skipped
        (b"x" * 10_000 + b"\nnext\n", ["x" * 9000, "next"]),  # longer than any response
        (b"http://\xff\n", ["http://\N{REPLACEMENT CHARACTER}"]),
    ],
)
async def test_other_inputs_are_read_line_by_line(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    content: bytes,
    lines: list[str],
    is_file: bool,
    by_loop: bool,
) -> None:
    """By the event loop, which cannot wait for files, or by a thread, as on Windows."""
    monkeypatch.setattr(_terminal, "_TERMIOS", by_loop)
    monkeypatch.setattr(_terminal, "_LONGEST", 9000)
    (tmp_path / "pasted").write_bytes(content)
    theirs, ours = os.pipe()
    if is_file:
        os.close(theirs)
        theirs = os.open(tmp_path / "pasted", os.O_RDONLY)

    def feed() -> None:
        if not is_file:
            os.write(ours, content)  # waits until it is read
        os.close(ours)

    be_input(monkeypatch, theirs)
    paste = PasteFromTerminal()
    feeding = asyncio.create_task(asyncio.to_thread(feed))
    assert [await paste() for _ in lines] == lines
    for _ in range(2):
        with pytest.raises(EOFError):
            await paste()
    await feeding
    os.close(theirs)


async def test_without_an_input_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There may be none, or it is closed, or a notebook's, which is no file."""
    closed = (tmp_path / "input").open("w+")
    closed.close()
    for unusable in (None, closed, io.StringIO("http://127.0.0.1/"), object()):
        monkeypatch.setattr("sys.stdin", unusable)
        with pytest.raises(ConfigurationError, match="needs a terminal, a pipe or a file"):
            await PasteFromTerminal()()


async def test_an_input_that_cannot_be_read_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_terminal, "_TERMIOS", False)
    be_input(monkeypatch, 1 << 20)
    with pytest.raises(EOFError):
        await PasteFromTerminal()()


async def test_the_console_of_windows_is_read_key_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is shown; keys without a character, such as arrows, are skipped; it can be left."""
    keys = list("\xe0Kab\0;c\rrest")
    console = SimpleNamespace(kbhit=lambda: keys, getwch=lambda: keys.pop(0))
    monkeypatch.setattr(_terminal, "_TERMIOS", False)
    monkeypatch.setitem(sys.modules, "msvcrt", console)
    monkeypatch.setattr("os.isatty", lambda descriptor: True)
    be_input(monkeypatch, -1)
    paste = PasteFromTerminal()
    assert await paste() == "abc"
    task = await reading(paste)
    while keys:  # noqa: ASYNC110 - nothing tells that the last one was read
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    keys[:] = "!\r"
    assert await paste() == "!"
