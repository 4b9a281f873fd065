"""Files that are uploaded, by their path or already open. All of it blocks: it runs in a thread."""

import io
import os
import stat
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO, Final

from gateway_sdk.errors import InvalidArgumentError, UploadFailedError

_READ: Final = 2**18  # bytes of one read


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


def read_path(path: Path, length: int) -> Generator[bytes, None, None]:
    """Read exactly the bytes that the head of the request promised.

    Raises:
        UploadFailedError: the file has become shorter or longer.
        OSError: it cannot be read any more.
    """
    with path.open("rb", buffering=0) as file:
        yield from _exactly(file, length)


def span_of(file: BinaryIO) -> tuple[int, int] | None:
    """Return where an open file stands and how many bytes follow; None if it cannot go back.

    Raises:
        InvalidArgumentError: it is closed, or not open for reading bytes.
    """
    try:
        kind: type = type(file)  # what the user gave may be of any
        if issubclass(kind, io.TextIOBase) or not file.readable():
            raise InvalidArgumentError('content is an open file, but not for reading bytes ("rb")')
        if not file.seekable():
            return None
        start = file.tell()
        end = file.seek(0, io.SEEK_END)
        file.seek(start)
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is closed"
        raise InvalidArgumentError(f"content is an unreadable file: {problem}") from None
    return start, max(0, end - start)


def read_open(file: BinaryIO, span: tuple[int, int] | None) -> Generator[bytes, None, None]:
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
    yield from _exactly(file, length)


def _exactly(file: "BinaryIO | io.FileIO", length: int) -> Generator[bytes, None, None]:
    left = length
    while piece := _read_some(file, left):
        left -= len(piece)
        yield piece
    if left or _read_some(file, 1):
        raise UploadFailedError("content is a file that changed its size while it was sent")


def _read_some(file: "BinaryIO | io.FileIO", most: int) -> bytes:
    piece: object = file.read(min(most, _READ))
    if not isinstance(piece, bytes):
        raise UploadFailedError("content is an open file, but it gives no bytes")
    return piece
