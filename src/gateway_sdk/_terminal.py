"""What a user sits at: a browser that opens by itself, a terminal that is pasted into."""

import asyncio
import os
import shutil
import signal
import sys
import webbrowser
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from gateway_sdk._waiting import in_thread
from gateway_sdk.errors import ConfigurationError, LoginError


def show_on_stderr(text: str) -> None:
    # It is None in a program with windows only, and full or closed; a browser opens all the same.
    with suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


_TEXT_BROWSERS: Final = frozenset({"www-browser", "links", "elinks", "lynx", "w3m"})
"""They take the terminal, and cannot run the page's script."""


def open_url(browser: Any, url: str) -> bool:
    """Open a URL by a command with %s, or a function, whose LoginError goes on; tell if it did."""
    try:
        start = webbrowser.get(browser).open if isinstance(browser, str) else browser
        return bool(start(url))
    except LoginError:
        raise
    except Exception:  # noqa: BLE001 - of the caller's function; the user is told what to do
        return False


def default_browser() -> Callable[[str], bool] | None:
    """Return what opens this machine's own browser; None if it has only browsers of text."""
    if not any(map(shutil.which, _TEXT_BROWSERS)):
        return webbrowser.open
    found = list[webbrowser.BaseBrowser]()  # `webbrowser.open` goes on to those of text
    for name in (*os.environ.get("BROWSER", "").split(os.pathsep), None):
        with suppress(webbrowser.Error):
            browser = webbrowser.get(name or None)
            if Path(getattr(browser, "name", "")).name not in _TEXT_BROWSERS:
                found.append(browser)
    return (lambda url: any(browser.open(url) for browser in found)) if found else None


_LONGEST: Final = 128 * 1024
"""Bytes: twice the longest response that is read, so that one cut here is refused there."""

_ENTER: Final = frozenset(b"\r\n")
_BACKSPACE: Final = frozenset(b"\b\x7f")
_END: Final = 0x04  # Ctrl-D: it ends a line, and the input on an empty line
_SPECIAL: Final = frozenset("\0\xe0")
"""What the console of Windows gives before a key without a character, such as an arrow."""
_BETWEEN_LOOKS: Final = 0.05
"""Seconds: nobody waits for the console to notice a key."""
_TERMIOS: Final = find_spec("termios") is not None
"""Whether terminals are those of POSIX, and its loops wait for any input."""


class PasteFromTerminal:
    """Returns one line of standard input per call; a terminal does not show it.

    The terminal's line mode is not used: it silently cuts a line at 4096 characters (macOS: 1024),
    and a token may be longer.
    """

    def __init__(self) -> None:
        self._read = bytearray()

    async def __call__(self) -> str:
        """Return a line; EOFError after the last one.

        ConfigurationError if the input is neither a terminal nor a pipe nor a file.
        """
        try:
            descriptor = sys.stdin.fileno()
        except (AttributeError, OSError, ValueError):  # none, closed, or replaced as in a notebook
            raise ConfigurationError("pasting needs a terminal, a pipe or a file") from None
        line = bytearray()
        with _without_echo(descriptor):
            while True:
                if not self._read:
                    self._read += await _read(descriptor) or bytes([_END])
                byte = self._read.pop(0)
                # Empty lines are skipped: pasting adds some, and so does "\r\n".
                if line and byte in {*_ENTER, _END}:
                    return line.decode("utf-8", "replace")
                if byte == _END:
                    raise EOFError
                if byte in _BACKSPACE:
                    del line[-1:]
                elif byte not in _ENTER and len(line) < _LONGEST:
                    line.append(byte)


async def _read(descriptor: int) -> bytes:
    read = partial(os.read, descriptor, 4096)
    if _TERMIOS:
        loop, readable = asyncio.get_running_loop(), asyncio.Event()
        with suppress(PermissionError):  # an ordinary file is always readable
            loop.add_reader(descriptor, readable.set)
            try:
                await readable.wait()
            finally:
                loop.remove_reader(descriptor)
        return read()
    if os.isatty(descriptor):
        return await _next_key()
    with suppress(OSError):
        # This thread cannot be stopped: what comes after the login may be lost.
        return await in_thread("gateway_sdk-login", read)
    return b""


async def _next_key() -> bytes:
    """Wait for a key at the console of Windows, which shows none."""
    console: Any = import_module("msvcrt")
    while True:
        while not console.kbhit():  # noqa: ASYNC110 - the console tells nobody of a key
            await asyncio.sleep(_BETWEEN_LOOKS)
        key: str = console.getwch()
        if key not in _SPECIAL:
            return key.encode("utf-8", "replace")
        console.getwch()


@contextmanager
def _without_echo(descriptor: int) -> Generator[None]:
    """Switch off a terminal's echo and line mode; leave other inputs as they are."""
    if not _TERMIOS or not os.isatty(descriptor):
        yield
        return
    termios: Any = import_module("termios")  # not every system has it
    before = termios.tcgetattr(descriptor)
    # Not `tty.setcbreak`, which since Python 3.12 changes what Enter sends, too.
    changed = termios.tcgetattr(descriptor)
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(descriptor, termios.TCSADRAIN, changed)

    def hide_again(*received: Any) -> None:
        """Act after `fg`: a shell shows the input of what was stopped, and cuts its lines."""
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, changed)
        if callable(others):
            others(*received)

    others = signal.getsignal(signal.SIGCONT)
    with suppress(ValueError):  # only the main thread can set it
        signal.signal(signal.SIGCONT, hide_again)
    try:
        yield
    finally:
        with suppress(ValueError):
            signal.signal(signal.SIGCONT, others or signal.SIG_DFL)
        with suppress(termios.error):  # the terminal is closed
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
