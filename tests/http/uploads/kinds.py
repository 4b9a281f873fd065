"""One document in every form in which it can be given."""

import gzip
import io
import os
import random
import tempfile
import zipfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import BaseModel
from starlette.datastructures import UploadFile

from gateway_sdk import Multipart
from gateway_sdk._content.files import CHUNK, is_received
from tests.http.uploads.servers import Unseekable, written

CONTENT: Final = random.Random(1).randbytes(5 * CHUNK + 3)  # noqa: S311 - the same each time
"""More than one piece, and no two of them alike."""
HALVES: Final = (CONTENT[:100], CONTENT[100:])
LARGE: Final = CONTENT * 3
"""More than the buffers hold in which files are read."""
SKIPPED: Final = b"already read"
JSON: Final = b'{"status":"ok"}'
PIPED: Final = b"what a pipe holds"


class Status(BaseModel):
    status: str


def _path(folder: Path, content: bytes = CONTENT) -> Path:
    return written(folder, "scan.pdf", content)


def _in_its_middle(file: Any) -> Any:
    file.seek(len(SKIPPED))
    return file


def _filled(file: Any) -> Any:
    file.write(CONTENT)
    file.seek(0)
    return file


def _spooled(size: int) -> Any:
    return _filled(tempfile.SpooledTemporaryFile(size))


def _temporary(folder: Path) -> Any:
    return _filled(tempfile.NamedTemporaryFile(dir=folder))


def _member(folder: Path) -> Any:
    with zipfile.ZipFile(folder / "scans.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("scan.pdf", CONTENT)
    with zipfile.ZipFile(folder / "scans.zip") as archive:
        return archive.open("scan.pdf")


def _compressed(folder: Path) -> Any:
    """Return a file whose descriptor tells another length than it has."""
    (folder / "scan.gz").write_bytes(gzip.compress(LARGE, compresslevel=0))
    return gzip.open(folder / "scan.gz")


def _pipe(buffering: int = -1) -> Any:
    reading, writing = os.pipe()
    os.write(writing, PIPED)
    os.close(writing)
    return open(reading, "rb", buffering=buffering)  # noqa: PTH123


class Slotted:
    """A file that takes no weak reference."""

    __slots__ = ("_file",)

    def __init__(self) -> None:
        self._file = io.BytesIO(CONTENT)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


async def _stream() -> AsyncIterator[bytes | bytearray | memoryview]:
    yield b""
    yield bytearray(CONTENT[:100])
    yield b""
    yield memoryview(CONTENT[100:])


class Chunks:
    """A stream that is no generator, as the files of aiofiles are."""

    def __init__(self, *pieces: bytes) -> None:
        self._left = list(pieces)

    def __aiter__(self) -> "Chunks":
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop(0)


class Steps(Chunks, AsyncGenerator[bytes, None]):
    """A stream of a class with the methods of a generator, such as one that counts."""

    async def asend(self, _: None) -> bytes:
        return await anext(self)

    async def athrow(self, *_: Any) -> bytes:
        raise StopAsyncIteration


class Unhashable(Steps):
    __hash__: ClassVar[None] = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Kind:
    give: Callable[[Path], Any]  # makes it; it may use a folder
    sent: bytes | None = CONTENT  # its bytes; None for a form, which has a boundary in them
    replayable: bool = True  # whether it can be sent a second time


KINDS: Final[dict[str, Kind]] = {
    "bytes": Kind(lambda _: CONTENT),
    "empty bytes": Kind(lambda _: b"", b""),
    "mapping": Kind(lambda _: {"status": "ok"}, JSON),
    "list": Kind(lambda _: [{"status": "ok"}], b"[" + JSON + b"]"),
    "model": Kind(lambda _: Status(status="ok"), JSON),
    "path": Kind(_path),
    "large path": Kind(lambda folder: _path(folder, LARGE), LARGE),
    "empty path": Kind(lambda folder: _path(folder, b""), b""),
    "buffered file": Kind(lambda folder: _path(folder).open("rb")),
    "unbuffered file": Kind(lambda folder: _path(folder).open("rb", buffering=0)),
    "empty file in memory": Kind(lambda _: io.BytesIO(), b""),
    "file in its middle": Kind(
        lambda folder: _in_its_middle(_path(folder, SKIPPED + CONTENT).open("rb"))
    ),
    "memory without weak references": Kind(lambda _: Slotted()),
    "memory in its middle": Kind(lambda _: _in_its_middle(io.BytesIO(SKIPPED + CONTENT))),
    "spooled in memory": Kind(lambda _: _spooled(0)),
    "spooled file": Kind(lambda _: _spooled(1)),
    "temporary file": Kind(_temporary),
    "member of an archive": Kind(_member),
    "compressed file": Kind(_compressed, LARGE),
    "form with one": Kind(lambda at: Multipart({}, {"front": _compressed(at)}), None),
    "form": Kind(lambda folder: Multipart({"kind": "scan"}, {"front": _path(folder)}), None),
    "received": Kind(lambda _: UploadFile(_spooled(0), filename="scan.pdf")),
    "received on disk": Kind(lambda _: UploadFile(_spooled(1))),
    "form with what was received": Kind(
        lambda _: Multipart({}, {"front": UploadFile(_spooled(1))}), None
    ),
    "pipe": Kind(lambda _: _pipe(), PIPED, replayable=False),
    "unbuffered pipe": Kind(lambda _: _pipe(0), PIPED, replayable=False),
    "unseekable": Kind(lambda _: Unseekable(CONTENT), replayable=False),
    "iterator": Kind(lambda _: Chunks(*HALVES), replayable=False),
    "iterator like a generator": Kind(lambda _: Unhashable(*HALVES), replayable=False),
    "stream": Kind(lambda _: _stream(), replayable=False),
    "form with a pipe": Kind(lambda _: Multipart({}, {"front": _pipe()}), None, replayable=False),
    "form with what is unseekable": Kind(
        lambda _: Multipart({}, {"front": Unseekable(CONTENT)}), None, replayable=False
    ),
}
OPEN: Final = [name for name, kind in KINDS.items() if "file" in name or "memory" in name]


@contextmanager
def given(name: str, folder: Path) -> Iterator[Any]:
    content = KINDS[name].give(folder)
    try:
        yield content
    finally:
        for file in [content, *getattr(content, "files", {}).values()]:
            getattr(file.file if is_received(file) else file, "close", int)()
