"""Files to upload, alone or in a form (RFC 7578): read in a thread, not in the event loop."""

import asyncio
import io
import mimetypes
import os
import secrets
import stat
import threading
import weakref
from asyncio import wrap_future
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any, Final, Protocol, TypeAlias, TypeGuard, TypeVar
from weakref import WeakKeyDictionary

from gateway_sdk._checks import is_async
from gateway_sdk._http.request import check_argument
from gateway_sdk._waiting import in_thread, retrieve_error
from gateway_sdk.errors import InvalidArgumentError, UploadFailedError

OpenFile: TypeAlias = IO[bytes] | io.BufferedIOBase
"""`io.BufferedIOBase` is the type of files that decompress, such as `gzip.GzipFile`."""


class ReceivedFile(Protocol):
    """What a web framework received: the `UploadFile` of FastAPI, Starlette and Litestar."""

    async def read(self, size: int = -1, /) -> bytes: ...
    @property
    def file(self) -> OpenFile: ...
    @property
    def filename(self) -> str | None: ...
    @property
    def content_type(self) -> str | None: ...


File: TypeAlias = Path | bytes | OpenFile | ReceivedFile

BINARY: Final = "application/octet-stream"

CHUNK: Final = 2**19
"""Bytes that are read and sent at once: few enough for progress and cancellation to be prompt; a
chunk from the thread costs about 0.1 ms, and more bytes leave the CPU cache. Half of it takes a
fifth more CPU time."""

_PIPE: Final = 2**16  # bytes of one read of what cannot seek: a pipe may be slow to fill more

PATIENCE: Final = 0.5
"""Seconds that the end of a call waits for an unfinished read of the user's file: a disk answers in
milliseconds, a pipe perhaps never. Shorter than the wait of a closing session for its calls.
"""

LOOKS: Final = 8
"""Threads that look at files before they are sent, mostly for less than a millisecond."""

_looks: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]] = WeakKeyDictionary()

T = TypeVar("T")
R = TypeVar("R")

_Chunk: TypeAlias = "Future[bytes]"


@dataclass(frozen=True, slots=True, repr=False)
class Source:
    """What is read in a thread: a file, or a form with files."""

    length: int | None  # bytes; None if unknown: then it can be read only once
    chunks: Callable[[], Generator[bytes, None, None]]  # from the beginning each time
    ahead: bool  # whether reading ahead is safe: the user has opened nothing of it
    in_memory: bool = False  # all of it


def media_type_of(name: object) -> str:
    """Guess it from the name of a file; of a compressed one, only that it is binary."""
    # Without folders: of a URL of data (RFC 2397) the type would be any text in it.
    last = Path(name).name if isinstance(name, str) else ""
    guessed, compression = mimetypes.guess_type(last)
    return guessed if guessed and not compression else BINARY


def is_received(file: object) -> TypeGuard[ReceivedFile]:
    has_all = all(hasattr(file, name) for name in ("file", "filename", "content_type"))
    return has_all and is_async(getattr(file, "read", None))


def name_and_type_of(file: Any) -> tuple[object, str | None]:
    """Return the name of a file, and the media type that came with it."""
    name = getattr(file, "name", None)
    if hasattr(file, "content_type"):  # Django's has no `filename`; Flask's `name` is of its form
        return getattr(file, "filename", None) or name, file.content_type
    return name, None


def cut(content: bytes) -> Generator[bytes, None, None]:
    for start in range(0, len(content), CHUNK):
        yield content[start : start + CHUNK]  # a short one is not copied


# All functions down to `from_thread` block, so they run in a thread.


def source_of(given: Any, start: int | None = None) -> Source:
    """Check a file; an open one is read from *start*, or else from its position."""
    # The coroutines of a received file would read the same one, in another thread.
    file: Path | bytes | OpenFile = given.file if is_received(given) else given
    if isinstance(file, bytes):
        return Source(len(file), partial(cut, file), ahead=True, in_memory=True)
    try:
        if isinstance(file, Path):
            size = _size_of(file)
            return Source(size, partial(_read_path, file, size), ahead=True)
        span = _span_of(file, start)
        length = None if span is None else span[1]
        return Source(length, partial(_read_open, file, span), ahead=False)
    except UploadFailedError as error:
        problem = str(error)
    except OSError as error:
        problem = error.strerror or type(error).__name__
    except ValueError:  # of a name: NUL, or a lone surrogate
        problem = "no file has such a name" if isinstance(file, Path) else "it is closed"
    except (AttributeError, TypeError):  # an object that only has read()
        problem = "it lacks methods that every binary file has"
    except Exception as error:  # noqa: BLE001 - those of compressed files are of many kinds
        problem = type(error).__name__
    raise InvalidArgumentError(f"is an unreadable file: {problem}", field="content")


def _size_of(path: Path) -> int:
    """Return the length of a regular file in bytes, after a check that it can be opened."""
    if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe would wait for a writer
        raise UploadFailedError("it is no regular file; a pipe has to be given opened")
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size


def _read_path(path: Path, length: int) -> Generator[bytes, None, None]:
    with path.open("rb", buffering=0) as file:
        yield from _exactly(file, length)


def _span_of(file: OpenFile, start: int | None) -> tuple[int, int] | None:
    """Return the start in an open file and the bytes that follow; None if it cannot seek."""
    if is_async(file.read):
        raise UploadFailedError("it is asynchronous: give its Path, or its bytes")
    with _alone(file) as use:
        if not (file.readable() and isinstance(file.read(0), bytes)):
            raise UploadFailedError('it is not open for reading bytes ("rb")')
        if file.seekable():
            stands = file.tell()
            end = file.seek(0, io.SEEK_END)
            file.seek(stands)
            start = stands if start is None else start
            was_read = start > use.start if use.has_begun else start >= max(1, end)
            if not was_read:
                return start, max(0, end - start)
        elif not use.has_begun:
            return None
    raise UploadFailedError(
        "it is at its end, or an earlier call has read of it: seek(0), or open it"
    )


def _read_open(file: OpenFile, span: tuple[int, int] | None) -> Generator[bytes, None, None]:
    """Read an open file from its position; it stays open, because it belongs to the user."""
    with _alone(file) as use:
        use.has_begun = True
        if span is None:
            while chunk := _read_some(file, _PIPE):
                yield chunk
            return
        use.start, length = span
        file.seek(use.start)
        yield from _exactly(file, length)


class _Use:
    """What calls have to know of each other that are given the same open file."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.has_begun = False  # to be read, by a call
        self.start = 0  # where that began


_uses: Final[WeakKeyDictionary[Any, _Use]] = WeakKeyDictionary()


@contextmanager
def _alone(file: OpenFile) -> Generator[_Use]:
    """Keep other calls from an open file, which has one position for all of them."""
    try:
        use = _uses.setdefault(file, _Use())  # as a dictionary's, it needs no lock
    except TypeError:  # it takes no weak reference
        use = _Use()
    # An earlier attempt of the same call may still end a read.
    if not use.lock.acquire(timeout=PATIENCE):
        raise UploadFailedError("another call reads this open file: open it once for each call")
    try:
        yield use
    finally:
        use.lock.release()


def _exactly(file: OpenFile | io.FileIO, length: int) -> Generator[bytes, None, None]:
    left, chunk, written = length, b"", _written(file)
    while left > 0 and (chunk := _read_some(file, min(left, CHUNK))):
        left -= len(chunk)
        if left > 0:
            yield chunk
    # The last chunk is sent only when the file has ended there: a gateway must not take a part, or
    # a mixture of an old and a new document, for the whole.
    if left or file.read(1) or _written(file) != written:
        raise UploadFailedError("content is a file that changed while it was sent")
    if chunk:
        yield chunk


def _written(file: OpenFile | io.FileIO) -> int | None:
    """Return when a file that we have opened was written to; None for one of the user."""
    return os.fstat(file.fileno()).st_mtime_ns if isinstance(file, io.FileIO) else None


def _read_some(file: OpenFile | io.FileIO, most: int) -> bytes:
    """Read with `read`, the one method that every file-like object has."""
    chunk: object = file.read(most)
    if not isinstance(chunk, bytes):
        raise UploadFailedError("content is an open file, but it gives no bytes")
    return chunk


# Reading *ahead* is faster, and not for a file that the user opened: they may use it as soon as
# the call has ended. A read cannot be interrupted, so the end of the call waits for it, up to
# `PATIENCE` seconds. Then it continues alone, and no further one follows.
async def from_thread(
    chunks: Callable[[], Generator[bytes, None, None]], *, ahead: bool
) -> AsyncGenerator[bytes, None]:
    # The thread also closes the generator, after the last read and never in the event loop.
    thread = _Thread(chunks())
    coming = thread.ask()
    try:
        while chunk := (coming.result() if coming.done() else await wrap_future(coming)):
            if ahead:
                coming = thread.ask()
            yield chunk
            if not ahead:
                coming = thread.ask()
    finally:
        coming.cancel()
        thread.end()
        if not ahead and not coming.done():
            await _wait(wrap_future(coming))


async def in_few_threads(function: Callable[[T], R], given: T) -> R:
    """Call a function that reads the user's files; up to `LOOKS` are called at the same time."""
    # Not in the threads of the event loop: all of them may wait for this call. If the caller is
    # cancelled, it waits until the function has ended, up to `PATIENCE` seconds.
    async with _looks.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(LOOKS)):
        try:
            looking = in_thread("gateway-upload", partial(function, given))
        except RuntimeError:
            problem = "the content cannot be read: no thread can be started"
            raise UploadFailedError(problem) from None
        try:
            await asyncio.wait([looking])
        except asyncio.CancelledError:
            await _wait(looking)
            raise
        return looking.result()


async def _wait(work: asyncio.Future[Any]) -> None:
    """Wait for work in a thread whose result is not needed, up to `PATIENCE` seconds."""
    retrieve_error(work)
    await asyncio.wait([work], timeout=PATIENCE)


class _Thread:
    """A thread that takes chunks out of a generator, and closes it."""

    # The thread also ends when this object is deleted, for example after the event loop was
    # closed. The exit of the interpreter does not wait for it: a read from a pipe may never end.

    def __init__(self, generator: Generator[bytes, None, None]) -> None:
        self._wanted: SimpleQueue[_Chunk | None] = SimpleQueue()
        self.end = weakref.finalize(self, self._wanted.put, None)
        self.end.atexit = False
        run, given = copy_context().run, (_serve, generator, self._wanted)
        threading.Thread(target=run, args=given, name="gateway-upload", daemon=True).start()

    def ask(self) -> _Chunk:
        """Ask for the next chunk; an empty one is the end."""
        chunk: _Chunk = Future()
        self._wanted.put(chunk)
        return chunk


def _serve(generator: Generator[bytes, None, None], wanted: "SimpleQueue[_Chunk | None]") -> None:
    chunks = filter(None, generator)
    try:
        while chunk := wanted.get():
            if chunk.set_running_or_notify_cancel():
                try:
                    chunk.set_result(next(chunks, b""))
                except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
                    chunk.set_exception(error)
            del chunk  # its bytes would stay in memory until the next one
    finally:
        generator.close()


FilePart: TypeAlias = File | tuple[str, File] | tuple[str, File, str]
"""A file, or (name, file), or (name, file, media type)."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Multipart:
    """A form with fields and files, as multipart/form-data.

    Attributes:
        fields: Texts by name; a list of texts repeats the name.
        files: Files by name in the form; a list of files repeats the name. A path is opened when
            it is sent; an open file is sent from its beginning, and stays open.
    """

    fields: Mapping[str, str | list[str]]
    files: Mapping[str, FilePart | list[FilePart]]


_FIELDS: Final = (
    "is a Multipart, which needs fields: a mapping of names to texts, or to lists of texts"
)
_FILES: Final = (
    "is a Multipart, which needs files: a mapping of names to at least one file; a file is a "
    "pathlib.Path, bytes or an open file, alone or as (name, file) or (name, file, media type)"
)
_QUOTED: Final = {code: f"%{code:02X}" for code in (*range(0x20), ord('"'))} | {ord("\\"): r"\\"}
"""What cannot stand between the quotes of a name, as httpx writes it; ESC too, which it sends."""


def form_of(multipart: Multipart) -> tuple[str, Source]:
    """Check a form; return its media type, with the boundary, and what is sent."""
    boundary = secrets.token_hex(16)
    text = ""  # to be sent before the next file
    parts = list[Source]()
    try:
        for name, value in _pairs(multipart.fields, _FIELDS):
            if not isinstance(value, str):
                raise InvalidArgumentError(_FIELDS, field="content")
            # Not in the f-string: it would write the name of a member of an Enum.
            text += f"--{boundary}\r\n{_disposition(name)}\r\n\r\n" + value + "\r\n"
        for name, given in _pairs(multipart.files, _FILES):
            head, file = _file_of(name, given)
            parts += [source_of(f"{text}--{boundary}\r\n{head}\r\n\r\n".encode()), file]
            text = "\r\n"
    except UnicodeEncodeError:  # no cause: its text shows the value
        problem = "is a Multipart with half of a surrogate pair in it"
        raise InvalidArgumentError(problem, field="content") from None
    if not parts:
        raise InvalidArgumentError(_FILES, field="content")
    parts.append(source_of(f"{text}--{boundary}--\r\n".encode()))

    def read() -> Generator[bytes, None, None]:
        for part in parts:
            yield from part.chunks()

    lengths = [part.length for part in parts]
    size = sum(filter(None, lengths))
    length = None if None in lengths else size
    ahead = all(part.ahead for part in parts)
    in_memory = size <= CHUNK and all(part.in_memory for part in parts)
    return f"multipart/form-data; boundary={boundary}", Source(length, read, ahead, in_memory)


def _pairs(given: object, wanted: str) -> Iterator[tuple[str, Any]]:
    """Return names and values; a list of values repeats the name."""
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidArgumentError(wanted, field="content")
    for name, value in given.items():
        for one in value if isinstance(value, list) else [value]:
            yield name, one


def _file_of(name: str, part: Any) -> tuple[str, Source]:
    """Return the header fields of a file in a form, and what is sent of it."""
    match part:
        case tuple((label, file, *media_type)) if len(media_type) <= 1:
            pass
        case _:
            own_name, own_type = name_and_type_of(part)
            # Of a temporary file it is None or a number.
            label = Path(own_name).name if isinstance(own_name, str) else "upload"
            file, media_type = part, [own_type] if own_type else []
    is_file = isinstance(file, Path | bytes) or hasattr(file, "read")
    if not is_file or not all(isinstance(text, str) for text in (label, *media_type)):
        raise InvalidArgumentError(_FILES, field="content")
    head = _disposition(name)
    if label:
        head += f'; filename="{str.translate(label, _QUOTED)}"'
        media_type = media_type or [media_type_of(label)]
    for text in media_type:
        check_argument("the media type of a file of Multipart", text)
        head += "\r\nContent-Type: " + text
    return head, source_of(file, 0)


def _disposition(name: str) -> str:
    return f'Content-Disposition: form-data; name="{name.translate(_QUOTED)}"'
