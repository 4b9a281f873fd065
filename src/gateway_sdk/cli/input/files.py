"""Files that people give by name, or as standard input by "-"."""

import sys
from pathlib import Path
from typing import IO, Final

from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.output.printable import printable
from gateway_sdk.cli.output.stdout import say

STDIN: Final = "-"


def name_of(word: str) -> str:
    """Give the name for messages."""
    return "standard input" if word == STDIN else printable(word)


def read_all(word: str) -> bytes:
    """Read a file to its end.

    Raises:
        CommandError: it cannot be read; the message names it and says why.
    """
    try:
        return _stdin().read() if word == STDIN else Path(word).read_bytes()
    except OSError as error:
        raise _unreadable(word, error) from None


def open_content(word: str) -> Path | IO[bytes] | bytes:
    """Give a file as what can be uploaded: a path, or what can only be read once, open.

    What is typed is read here, for a terminal has no lasting end: reading on would ask for more.

    Raises:
        CommandError: it cannot be read; the message names it and says why.
    """
    if word == STDIN:
        stdin = _stdin()
        return stdin.read() if stdin.isatty() else stdin
    path = Path(word)
    try:
        if path.is_fifo():  # as a shell's <(command) is
            return path.open("rb")
        with path.open("rb"):
            return path
    except OSError as error:
        raise _unreadable(word, error) from None


def _stdin() -> IO[bytes]:
    if sys.stdin is None:
        raise CommandError("there is no standard input to read", MISUSED)
    if sys.stdin.isatty():
        say("Reading what you type; Ctrl-D at the start of a line ends it.")
    return sys.stdin.buffer


def _unreadable(word: str, error: OSError) -> CommandError:
    why = error.strerror or type(error).__name__
    return CommandError(f"cannot read {name_of(word)}: {why}\nNothing was sent.", MISUSED)
