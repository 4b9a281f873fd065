"""Reading a pasted address from a terminal that does not show it."""

import asyncio
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Final, TextIO

from gateway_sdk.errors import ConfigurationError

_LONGEST: Final = 128 * 1024
"""Bytes: twice the longest answer that is read, so that one cut here is refused there."""

_ENTER: Final = frozenset(b"\r\n")
_ERASE: Final = frozenset(b"\b\x7f")
_ERASE_ALL: Final = 0x15
_END: Final = 0x04
# It ends a line first, and on an empty one the input.
_ENDS: Final = _ENTER | {_END}


class PasteFromTerminal:
    """Returns lines from standard input, one for each call; a terminal does not show them.

    The terminal's own line mode is not used: it cuts a line at 4096 characters (on macOS at 1024)
    without a word, and a token may be longer.
    """

    def __init__(self) -> None:
        """Make sure that there are such terminals here.

        Raises:
            ConfigurationError: Windows has none.
        """
        if find_spec("termios") is None:
            raise ConfigurationError("pasting needs a POSIX terminal: log in with a browser")
        self._read = bytearray()

    async def __call__(self) -> str:
        """Return a line.

        Raises:
            EOFError: the input ended.
            ConfigurationError: the input is neither a terminal nor a pipe nor a file.
        """
        stdin: TextIO | None = sys.stdin
        if stdin is None:  # a process may be started without
            raise EOFError
        try:
            descriptor = stdin.fileno()
        except OSError:  # it was replaced, as in a notebook
            raise ConfigurationError("pasting needs a terminal or a pipe as input") from None
        line = bytearray()
        with _unseen(descriptor):
            while (byte := await self._next(descriptor)) not in _ENDS or not line:
                # An empty line is none: pasting brings some along, and so does "\r\n".
                if byte not in _ENTER:
                    _edit(line, byte)
        return line.decode("utf-8", "replace")

    async def _next(self, descriptor: int) -> int:
        if not self._read:
            await _until_readable(descriptor)
            self._read += os.read(descriptor, 4096) or bytes([_END])
        return self._read.pop(0)


def _edit(line: bytearray, byte: int) -> None:
    """Do what the terminal does with a key in its line mode."""
    if byte in _ERASE:
        del line[-1:]
    elif byte == _ERASE_ALL:
        line.clear()
    elif byte == _END:
        raise EOFError
    elif len(line) < _LONGEST:
        line.append(byte)


async def _until_readable(descriptor: int) -> None:
    """Wait for input without a thread, which nothing could stop."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except PermissionError:  # an ordinary file, which always is
        return
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


@contextmanager
def _unseen(descriptor: int) -> Generator[None]:
    """Let a terminal show nothing and hand over every key at once; anything else is left alone."""
    # Imported here, because not every system has it.
    import termios  # noqa: PLC0415

    if not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)
    unseen = termios.tcgetattr(descriptor)
    unseen[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(descriptor, termios.TCSADRAIN, unseen)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal has gone
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
