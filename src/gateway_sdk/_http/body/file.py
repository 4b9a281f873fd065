"""Files to upload: paths and open files. All functions block, so they run in a thread."""

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
"""`io.BufferedIOBase` is the type of files that decompress, such as `gzip.GzipFile`."""

Piece: TypeAlias = bytes | memoryview

_READ: Final = 2**16  # bytes of one read of an open file
_BUFFER: Final = 2**20  # bytes of one read of a path: each read may switch threads
_LONGEST_PATH: Final = 4096  # characters: PATH_MAX of Linux
_NEVER_IN_PATHS: Final = re.compile(r"[\0\r\n]")  # paths may have line breaks; real ones have none


def size_of(path: Path) -> int:
    """Return the length of a regular file in bytes, after a check that it can be opened.

    Raises:
        InvalidArgumentError: it cannot be opened. The message does not show the name of the file,
            because it is often the name of a person.
    """
    try:
        if stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait for a writer
            with path.open("rb") as file:
                return os.fstat(file.fileno()).st_size
        problem: str | None = "it is no regular file"
    except OSError as error:
        problem = error.strerror
    except ValueError:  # NUL, or a lone surrogate
        problem = "no file has such a name"
    raise InvalidArgumentError(f"content is an unreadable file: {problem}")


def may_be_path(text: str, *, plain_words: bool) -> bool:
    """Tell whether a text could be the path of a file, without I/O.

    Args:
        text: Any text.
        plain_words: Whether a text without separator and suffix, such as "approved", counts.
    """
    if not 0 < len(text) <= _LONGEST_PATH or _NEVER_IN_PATHS.search(text):
        return False
    return plain_words or "/" in text or os.sep in text or Path(text).suffix != ""


def names_file(text: str) -> bool:
    """Tell whether a path or file:// URL names an existing file; False for a directory.

    An error counts as no: in a working folder without permission, every text would count as a
    file otherwise.
    """
    try:
        url = urlsplit(text)
        path = Path(url2pathname(url.path) if url.scheme == "file" else text)
        return not stat.S_ISDIR(path.expanduser().stat().st_mode)
    except (OSError, RuntimeError, ValueError):  # no such file or user, or not a path or URL
        return False


def read_path(path: Path, length: int) -> Generator[Piece, None, None]:
    """Read exactly as many bytes as the request announced.

    A piece is valid until the second piece after it: two buffers take turns, because new memory
    for each piece costs as much as the reading.

    Raises:
        UploadFailedError: the file has become shorter or longer.
        OSError: it cannot be read any more.
    """
    turns = cycle([memoryview(bytearray(min(length, _BUFFER))) for _ in range(2)])
    with path.open("rb", buffering=0) as file:
        yield from _exactly(file, length, lambda most: _read_into(file, next(turns)[:most]))


def span_of(file: OpenFile, start: int | None = None) -> tuple[int, int] | None:
    """Return the start in an open file and the bytes that follow; None if it cannot seek.

    Args:
        file: The open file; its position is not changed.
        start: The position to start at; None for the current one.

    Raises:
        InvalidArgumentError: the file is closed, or not open for reading bytes.
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
    except (AttributeError, TypeError):  # an object that only has read()
        problem = "it lacks methods that every binary file has"
    raise InvalidArgumentError(f"content is an unreadable file: {problem}")


def read_open(file: OpenFile, span: tuple[int, int] | None) -> Generator[Piece, None, None]:
    """Read an open file from its position; it stays open, because it belongs to the user.

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
    # The last piece is sent only when the file has ended there: a gateway must not take a part
    # for the whole.
    if left or file.read(1):
        raise UploadFailedError("content is a file that changed its size while it was sent")
    if piece:
        yield piece


def _read_into(file: io.FileIO, buffer: memoryview) -> memoryview:
    return buffer[: file.readinto(buffer)]


def _read_some(file: OpenFile, most: int) -> bytes:
    """Read with `read`, the one method that every file-like object has."""
    piece: object = file.read(min(most, _READ))
    if not isinstance(piece, bytes):
        raise UploadFailedError("content is an open file, but it gives no bytes")
    return piece
