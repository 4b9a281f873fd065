"""Reading a pasted address from a terminal without echo."""

import asyncio
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Final, TextIO

from gateway_sdk.errors import ConfigurationError

_LONGEST: Final = 128 * 1024
"""Bytes: twice the longest response that is read, so that one cut here is refused there."""

_ENTER: Final = frozenset(b"\r\n")
_ERASE: Final = frozenset(b"\b\x7f")
_ERASE_ALL: Final = 0x15
_END: Final = 0x04
# Ctrl-D ends a line; on an empty line it ends the input.
_ENDS: Final = _ENTER | {_END}


class PasteFromTerminal:
    """Returns one line of standard input per call; a terminal does not show it.

    The terminal's line mode is not used: it silently cuts a line at 4096 characters (macOS: 1024),
    and a token may be longer.
    """

    def __init__(self) -> None:
        """Check that this system has POSIX terminals.

        Raises:
            ConfigurationError: It has none, as Windows.
        """
        if find_spec("termios") is None:
            raise ConfigurationError("pasting needs a POSIX terminal: log in with a browser")
        self._read = bytearray()

    async def __call__(self) -> str:
        """Return a line.

        Raises:
            EOFError: The input ended.
            ConfigurationError: The input is neither a terminal nor a pipe nor a file.
        """
        stdin: TextIO | None = sys.stdin
        if stdin is None:  # a process may start without one
            raise EOFError
        try:
            descriptor = stdin.fileno()
        except OSError:  # replaced, as in a notebook
            raise ConfigurationError("pasting needs a terminal or a pipe as input") from None
        line = bytearray()
        with _without_echo(descriptor):
            while (byte := await self._next(descriptor)) not in _ENDS or not line:
                # Empty lines are skipped: pasting adds some, and so does "\r\n".
                if byte not in _ENTER:
                    _edit(line, byte)
        return line.decode("utf-8", "replace")

    async def _next(self, descriptor: int) -> int:
        if not self._read:
            await _until_readable(descriptor)
            self._read += os.read(descriptor, 4096) or bytes([_END])
        return self._read.pop(0)


def _edit(line: bytearray, byte: int) -> None:
    """Apply a key as a terminal's line mode does."""
    if byte in _ERASE:
        del line[-1:]
    elif byte == _ERASE_ALL:
        line.clear()
    elif byte == _END:
        raise EOFError
    elif len(line) < _LONGEST:
        line.append(byte)


async def _until_readable(descriptor: int) -> None:
    """Wait for input without a thread, because a reading thread cannot be stopped."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except PermissionError:  # an ordinary file is always readable
        return
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


@contextmanager
def _without_echo(descriptor: int) -> Generator[None]:
    """Switch off a terminal's echo and line mode; leave other inputs as they are."""
    # Imported here: not every system has it.
    import termios  # noqa: PLC0415

    if not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)
    changed = termios.tcgetattr(descriptor)
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(descriptor, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is closed
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
