"""Standard output, with all errors of writing reported, and standard error.

It imports nothing heavy, because `--help` uses it, too.
"""

import errno
import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from gateway_sdk.cli.failure import FAILED, READER_LEFT, CommandError

LOST: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG})
"""Errors of a standard output that cannot be written: closed by its reader, or a full disk."""


class OutputError(CommandError):
    """Standard output cannot be written."""


def write_text(text: str) -> None:
    """Write data as UTF-8, whatever the terminal's encoding."""
    write_bytes(text.encode())


def write_bytes(data: bytes) -> None:
    """Write bytes as they are."""
    if sys.stdout is None:
        raise OutputError("there is no standard output to write to", FAILED)
    with whole_output():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextmanager
def whole_output() -> Generator[None]:
    """Flush standard output at the end.

    Raises:
        OutputError: it cannot be written.
        SystemExit: its reader has closed it, as `head` does.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if error.errno not in LOST:
            raise
        _discard_the_rest()
        if error.errno == errno.EPIPE:
            raise SystemExit(READER_LEFT) from None
        raise OutputError(f"cannot write the output: {error.strerror}", FAILED) from None


def _discard_the_rest() -> None:
    """Let Python's exit flush to nowhere, so that it does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def say(text: str) -> None:
    """Write a line that is not data to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def tolerate_any_encoding() -> None:
    """Write "?" for what an encoding lacks, such as a curve's blocks in Latin-1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
