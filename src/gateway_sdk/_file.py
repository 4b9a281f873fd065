"""A file that is uploaded, read off the event loop."""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from typing import Final

from gateway_sdk.errors import InvalidArgumentError, UploadFailedError

_READ: Final = 2**20  # bytes per hop to the thread: one hop costs about 0.1 ms


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


async def read_pieces(path: Path, length: int) -> AsyncGenerator[bytes, None]:
    """Read exactly the bytes that the head of the request promised.

    The file has a thread of its own, so that closing it waits in line behind a read that nobody
    waits for any more, and never in the event loop.

    Raises:
        UploadFailedError: the file has become shorter or longer.
        OSError: it cannot be read any more.
    """
    thread = ThreadPoolExecutor(1, "gateway-upload")
    opened = thread.submit(path.open, "rb", buffering=0)
    try:
        file = await asyncio.wrap_future(opened)
        left = length
        while piece := await asyncio.wrap_future(thread.submit(_read_some, file, left)):
            left -= len(piece)
            yield piece
        beyond = await asyncio.wrap_future(thread.submit(_read_some, file, 1))
        if left or beyond:
            raise UploadFailedError("content is a file that changed its size while it was sent")
    finally:
        thread.submit(_close, opened)
        thread.shutdown(wait=False)


def _read_some(file: FileIO, most: int) -> bytes:
    return file.read(min(most, _READ)) or b""


def _close(opened: "Future[FileIO]") -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()
