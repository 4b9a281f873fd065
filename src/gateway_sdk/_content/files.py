"""Files to upload: paths and open files, read in a thread and not in the event loop."""

import asyncio
import io
import os
import re
import stat
import threading
import weakref
from asyncio import wrap_future
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from functools import partial
from itertools import cycle
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Final, TypeAlias, TypeVar, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

from gateway_sdk.errors import InvalidArgumentError, UploadFailedError

OpenFile: TypeAlias = IO[bytes] | io.BufferedIOBase
"""`io.BufferedIOBase` is the type of files that decompress, such as `gzip.GzipFile`."""

Chunk: TypeAlias = bytes | memoryview

BINARY: Final = "application/octet-stream"

# Bytes handed over at once: small enough for progress and cancellation to be prompt. In the rest of
# a long document more: each chunk costs 10 to 15 µs, whatever its size.
CHUNK: Final = 2**16
LARGE_CHUNK: Final = 2**19
FEW: Final = 128 * CHUNK  # bytes of a document that go out before the chunks become large

_READ: Final = 2**16  # bytes of one read of an open file
_BUFFER: Final = 2**20  # bytes of one read of a path: each read may switch threads
_LONGEST_PATH: Final = 4096  # characters: PATH_MAX of Linux
_NEVER_IN_PATHS: Final = re.compile(r"[\0\r\n]")  # paths may have line breaks; real ones have none

_BATCH: Final = 2**18
"""Bytes per batch: a batch from the thread costs about 0.1 ms, and more leaves the CPU cache."""

_WITHOUT_WAIT: Final[int] = getattr(os, "RWF_NOWAIT", 0)  # 0 except on Linux

PATIENCE: Final = 0.5
"""Seconds that the end of a call waits for an unfinished read of the user's file: a disk answers in
milliseconds, a pipe perhaps never. Shorter than the wait of a closing session for its calls.
"""

T = TypeVar("T")
R = TypeVar("R")

_Batch: TypeAlias = "Future[list[Chunk]]"


def most_after(sent: int) -> int:
    """Return the longest that the next chunk may be, in bytes."""
    return CHUNK if sent < FEW else LARGE_CHUNK


def cut(content: Chunk, sent: int) -> Iterator[bytes]:
    if len(content) <= most_after(sent):
        yield bytes(content)  # no copy if it is bytes
        return
    view, start = memoryview(content), 0
    while start < len(content):
        end = start + most_after(sent + start)
        yield bytes(view[start:end])
        start = end


# All functions down to `from_thread` block, so they run in a thread.


def size_of(path: Path) -> int:
    """Return the length of a regular file in bytes, after a check that it can be opened."""
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
    if not 0 < len(text) <= _LONGEST_PATH or _NEVER_IN_PATHS.search(text):
        return False
    return plain_words or "/" in text or os.sep in text or Path(text).suffix != ""


def names_file(text: str) -> bool:
    """Tell whether a path or file:// URL names an existing file; False for a directory."""
    # An error counts as no: in a working folder without permission, every text would count as a
    # file otherwise.
    try:
        url = urlsplit(text)
        path = Path(url2pathname(url.path) if url.scheme == "file" else text)
        return not stat.S_ISDIR(path.expanduser().stat().st_mode)
    except (OSError, RuntimeError, ValueError):  # no such file or user, or not a path or URL
        return False


def read_path(
    path: Path, length: int, start: int = 0, begun: os.stat_result | None = None
) -> Generator[Chunk, None, None]:
    # The first *start* bytes were read before, of the file *begun*; another file is refused. A
    # chunk is valid until the second chunk after it: two buffers take turns, because new memory
    # for each chunk costs as much as the reading.
    turns = cycle([memoryview(bytearray(min(length, _BUFFER))) for _ in range(2)])
    with path.open("rb", buffering=0) as file:
        if begun is not None and not os.path.samestat(begun, os.fstat(file.fileno())):
            raise UploadFailedError("content is a file that was replaced while it was sent")
        file.seek(start)
        yield from _exactly(file, length - start, lambda most: _read_into(file, next(turns)[:most]))


def span_of(file: OpenFile, start: int | None = None) -> tuple[int, int] | None:
    """Return the start in an open file and the bytes that follow; None if it cannot seek."""
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


def read_open(file: OpenFile, span: tuple[int, int] | None) -> Generator[Chunk, None, None]:
    """Read an open file from its position; it stays open, because it belongs to the user."""
    if span is None:
        while chunk := _read_some(file, _READ):
            yield chunk
        return
    start, length = span
    file.seek(start)
    yield from _exactly(file, length, lambda most: _read_some(file, most))


def _exactly(
    file: "OpenFile | io.FileIO", length: int, read: Callable[[int], Chunk]
) -> Generator[Chunk, None, None]:
    left, chunk = length, cast("Chunk", b"")
    while left > 0 and (chunk := read(left)):
        left -= len(chunk)
        if left > 0:
            yield chunk
    # The last chunk is sent only when the file has ended there: a gateway must not take a part
    # for the whole.
    if left or file.read(1):
        raise UploadFailedError("content is a file that changed its size while it was sent")
    if chunk:
        yield chunk


def _read_into(file: io.FileIO, buffer: memoryview) -> memoryview:
    return buffer[: file.readinto(buffer)]


def _read_some(file: OpenFile, most: int) -> bytes:
    """Read with `read`, the one method that every file-like object has."""
    chunk: object = file.read(min(most, _READ))
    if not isinstance(chunk, bytes):
        raise UploadFailedError("content is an open file, but it gives no bytes")
    return chunk


# Reading *ahead* is faster, and not for a file that the user opened: they may use it as soon as
# the call has ended. A read cannot be interrupted, so the end of the call waits for it, up to
# `PATIENCE` seconds. Then it continues alone, and no further one follows.
async def from_thread(
    chunks: Callable[[], Generator[Chunk, None, None]], *, ahead: bool
) -> AsyncGenerator[Chunk, None]:
    # The thread also closes the generator, after the last read and never in the event loop.
    thread = _Thread(chunks())
    coming = thread.ask()
    try:
        while batch := (coming.result() if coming.done() else await wrap_future(coming)):
            if ahead:
                coming = thread.ask()
            for chunk in batch:
                yield chunk
            if not ahead:
                coming = thread.ask()
    finally:
        coming.cancel()
        thread.end()
        if not ahead and not coming.done():
            await _wait(wrap_future(coming))


async def read_file(path: Path, length: int) -> AsyncGenerator[Chunk, None]:
    # That is copied here. From a thread it takes a third more CPU time, because another core has
    # to get it. From the first gap on, a thread reads, which may wait for a disk.
    held: list[io.FileIO] = []  # filled by the thread, so that it is closed after a cancellation
    start, begun = 0, None
    try:
        if _WITHOUT_WAIT and length > _BUFFER:
            await in_thread(lambda files: files.append(path.open("rb", buffering=0)), held)
            begun = os.fstat(held[0].fileno())
            buffer = memoryview(bytearray(min(length, LARGE_CHUNK)))
            while start + (most := most_after(start)) < length:
                if not (found := _in_memory(held[0], buffer[:most], start)):
                    break
                start += len(found)
                yield found
        chunks = partial(read_path, path, length, start, begun)
        async with aclosing(from_thread(chunks, ahead=True)) as rest:
            async for chunk in rest:
                yield chunk
    finally:
        for file in held:
            file.close()


def _in_memory(file: io.FileIO, buffer: memoryview, start: int) -> memoryview:
    """Return the bytes that the system has in memory; none if it would have to wait for them."""
    try:
        return buffer[: os.preadv(file.fileno(), [buffer], start, _WITHOUT_WAIT)]
    except OSError:  # a BlockingIOError; or the file system cannot tell
        return buffer[:0]


async def in_thread(function: Callable[[T], R], given: T) -> R:
    """Call a function that reads the user's files, as `from_thread` runs a generator."""
    results: list[R] = []

    def call() -> Generator[Chunk, None, None]:
        results.append(function(given))
        yield b""

    async with aclosing(from_thread(call, ahead=False)) as called:
        await anext(called)
    return results[0]


async def _wait(work: asyncio.Future[Any]) -> None:
    """Wait for work in a thread whose result is not needed, up to `PATIENCE` seconds."""
    # Read its error, or asyncio reports it.
    work.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    await asyncio.wait([work], timeout=PATIENCE)


class _Thread:
    """A thread that takes batches out of a generator, and closes it."""

    # The thread also ends when this object is deleted, for example after the event loop was
    # closed. The exit of the interpreter does not wait for it: a read from a pipe may never end.

    def __init__(self, generator: Generator[Chunk, None, None]) -> None:
        self._wanted: SimpleQueue[_Batch | None] = SimpleQueue()
        self.end = weakref.finalize(self, self._wanted.put, None)
        self.end.atexit = False
        thread = threading.Thread(
            target=_serve, args=(generator, self._wanted), name="gateway-upload", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            raise UploadFailedError(
                "the content cannot be read: no thread can be started"
            ) from None

    def ask(self) -> _Batch:
        """Ask for the next chunks; none if the generator has ended."""
        batch: _Batch = Future()
        self._wanted.put(batch)
        return batch


def _serve(generator: Generator[Chunk, None, None], wanted: "SimpleQueue[_Batch | None]") -> None:
    try:
        while batch := wanted.get():
            if batch.set_running_or_notify_cancel():
                try:
                    batch.set_result(_next(generator, wanted))
                except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                    batch.set_exception(error)
            del batch  # its chunks would stay in memory until the next batch
    finally:
        generator.close()


def _next(
    generator: Generator[Chunk, None, None], wanted: "SimpleQueue[_Batch | None]"
) -> list[Chunk]:
    # A chunk that is a view is valid for a short time only (see `read_path`), so it ends its
    # batch. A request that arrives while a batch is read can only be the end of the thread: then
    # the reading stops.
    batch, size = list[Chunk](), 0
    for chunk in generator:
        batch.append(chunk)
        size += len(chunk)
        if size >= _BATCH or isinstance(chunk, memoryview) or not wanted.empty():
            break
    return batch
