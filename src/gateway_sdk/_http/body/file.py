"""Files that are uploaded, by their path or already open. All of it blocks: it runs in a thread."""

import io
import os
import re
import stat
from collections.abc import Callable, Generator
from itertools import cycle
from pathlib import Path
from typing import IO, Final, TypeAlias, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from gateway_sdk.errors import InvalidArgumentError, UploadFailedError

OpenFile: TypeAlias = IO[bytes] | io.BufferedIOBase
"""The latter for what decompresses, which type checkers know as nothing else."""

Piece: TypeAlias = bytes | memoryview

_READ: Final = 2**16  # bytes of one read of an open file
_BUFFER: Final = 2**20  # bytes of one of ours: each read may cost a change of threads
_LONGEST_PATH: Final = 4096  # characters: PATH_MAX of Linux
_NEVER_IN_PATHS: Final = re.compile(r"[\0\r\n]")  # a line break is allowed there, but not in use


def size_of(path: Path) -> int:
    """Return the bytes of a regular file that can be opened.

    Raises:
        InvalidArgumentError: it cannot; the error does not name it, for that is often the name
            of a person.
    """
    try:
        if stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for a writer
            with path.open("rb") as file:
                return os.fstat(file.fileno()).st_size
        problem: str | None = "it is no regular file"
    except OSError as error:
        problem = error.strerror
    except ValueError:  # NUL, or a lone surrogate
        problem = "no file has such a name"
    raise InvalidArgumentError(f"content is an unreadable file: {problem}")


def may_be_path(text: str, *, plain_words: bool) -> bool:
    """Tell whether a text could be the path of a file. No I/O here.

    Args:
        text: Any.
        plain_words: Whether one without a separator and a suffix could be, such as "approved".
    """
    if not 0 < len(text) <= _LONGEST_PATH or _NEVER_IN_PATHS.search(text):
        return False
    return plain_words or "/" in text or os.sep in text or Path(text).suffix != ""


def names_file(text: str) -> bool:
    """Tell whether a file exists under a path or file:// URL; of a directory it is false.

    What cannot be found out counts as no: in a working folder that may not be entered, it would
    else be yes for every text.
    """
    try:
        url = urlsplit(text)
        path = Path(url2pathname(url.path) if url.scheme == "file" else text)
        return not stat.S_ISDIR(path.expanduser().stat().st_mode)
    except (OSError, RuntimeError, ValueError):  # no such file, no such user, not a path or URL
        return False


def read_path(path: Path, length: int) -> Generator[Piece, None, None]:
    """Read exactly the bytes that the head of the request promised.

    A piece is good until the next but one: two buffers take turns, for memory that is new each
    time costs as much as the reading.

    Raises:
        UploadFailedError: the file has become shorter or longer.
        OSError: it cannot be read any more.
    """
    turns = cycle([memoryview(bytearray(min(length, _BUFFER))) for _ in range(2)])
    with path.open("rb", buffering=0) as file:
        yield from _exactly(file, length, lambda most: _read_into(file, next(turns)[:most]))


def span_of(file: OpenFile, start: int | None = None) -> tuple[int, int] | None:
    """Return where to begin in an open file and how many bytes follow; None if it cannot go back.

    Args:
        file: It is left where it stands.
        start: Where to begin; None for where it stands.

    Raises:
        InvalidArgumentError: it is closed, or not open for reading bytes.
    """
    try:
        if file.readable() and isinstance(file.read(0), bytes):
            if not file.seekable():
                return None
            stands = file.tell()
            end = file.seek(0, io.SEEK_END)
            file.seek(stands)
            start = stands if start is None else start
            return start, max(0, end - start)
        problem = 'it is not open for reading bytes ("rb")'
    except OSError as error:
        problem = error.strerror or type(error).__name__
    except ValueError:
        problem = "it is closed"
    except (AttributeError, TypeError):  # another thing that has a read()
        problem = "it lacks methods that every binary file has"
    raise InvalidArgumentError(f"content is an unreadable file: {problem}")


def read_open(file: OpenFile, span: tuple[int, int] | None) -> Generator[Piece, None, None]:
    """Read an open file from where it stood; it stays open, for it is not ours.

    Raises:
        UploadFailedError: it has become shorter or longer.
        OSError: it cannot be read any more.
    """
    if span is None:
        while piece := _read_some(file, _READ):
            yield piece
        return
    start, length = span
    file.seek(start)
    yield from _exactly(file, length, lambda most: _read_some(file, most))


def _exactly(
    file: "OpenFile | io.FileIO", length: int, read: Callable[[int], Piece]
) -> Generator[Piece, None, None]:
    left, piece = length, cast("Piece", b"")
    while left > 0 and (piece := read(left)):
        left -= len(piece)
        if left > 0:
            yield piece
    # The last piece waits until it is known to be the last: no gateway takes a part for the whole.
    if left or file.read(1):
        raise UploadFailedError("content is a file that changed its size while it was sent")
    if piece:
        yield piece


def _read_into(file: io.FileIO, buffer: memoryview) -> memoryview:
    return buffer[: file.readinto(buffer)]


def _read_some(file: OpenFile, most: int) -> bytes:
    """Read with the one method that everybody overrides who makes a file of his own."""
    piece: object = file.read(min(most, _READ))
    if not isinstance(piece, bytes):
        raise UploadFailedError("content is an open file, but it gives no bytes")
    return piece
