"""Writing to standard output, to its last byte, or saying that it was not possible.

Standard output is for data; whatever else there is to say goes to standard error.
"""

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from gateway_sdk.cli.failure import FAILED, READER_LEFT, CommandError

LOST: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG})
"""What standard output says when it takes no more: the reader has left, or there is no room."""


class OutputError(CommandError):
    """Standard output takes no more."""


def write_text(text: str) -> None:
    """Write text as UTF-8, whatever a terminal's encoding, for it is data.

    Raises:
        OutputError: standard output takes no more.
        SystemExit: its reader has left.
    """
    write_bytes(text.encode())


def write_bytes(data: bytes) -> None:
    """Write bytes as they are.

    Raises:
        OutputError: standard output takes no more.
        SystemExit: its reader has left.
    """
    if sys.stdout is None:
        raise OutputError("there is no standard output to write to", FAILED)
    with whole_output():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextmanager
def whole_output() -> Generator[None]:
    """Flush standard output at the end, and tell when it took no more.

    Raises:
        OutputError: it takes no more.
        SystemExit: its reader has left, as `head` does, which nobody has to be told.
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
    """Let Python's exit find somebody who takes what is still held back."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def say(text: str) -> None:
    """Say something that is no data, on standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
