"""One document in every form in which it can be given."""

import io
import random
import tempfile
import zipfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from gateway_sdk import Multipart
from gateway_sdk._content.files import CHUNK
from tests.http.uploads.servers import Unseekable, pipe_with, written

CONTENT: Final = random.Random(1).randbytes(5 * CHUNK + 3)  # noqa: S311 - the same each time
"""More than one batch of the thread that reads files, and no two pieces alike."""
LARGE: Final = CONTENT * 10
"""More than the buffers hold in which files are read."""
SKIPPED: Final = b"already read"
JSON: Final = b'{"status":"ok"}'


class Status(BaseModel):
    status: str


@dataclass
class Given:
    """What a test gives, and what it has to close.

    Attributes:
        content: The document.
        close: Called at the end.
    """

    content: Any
    close: list[Callable[[], object]] = field(default_factory=list)


def _open(file: Any) -> Given:
    return Given(file, [file.close])


def _buffered(folder: Path) -> Given:
    return _open(written(folder, "scan.pdf", CONTENT).open("rb"))


def _unbuffered(folder: Path) -> Given:
    return _open(written(folder, "scan.pdf", CONTENT).open("rb", buffering=0))


def _in_its_middle(folder: Path) -> Given:
    file = written(folder, "scan.pdf", SKIPPED + CONTENT).open("rb")
    file.read(len(SKIPPED))
    return _open(file)


def _in_memory_in_its_middle(_: Path) -> Given:
    file = io.BytesIO(SKIPPED + CONTENT)
    file.seek(len(SKIPPED))
    return _open(file)


def _spooled(size: int) -> Callable[[Path], Given]:
    def make(folder: Path) -> Given:
        file = tempfile.SpooledTemporaryFile(size, dir=str(folder))  # noqa: SIM115 - closed by the test
        file.write(CONTENT)
        file.seek(0)
        return _open(file)

    return make


def _temporary(folder: Path) -> Given:
    file = tempfile.NamedTemporaryFile(dir=folder)  # noqa: SIM115 - closed by the test
    file.write(CONTENT)
    file.seek(0)
    return _open(file)


def _member(folder: Path) -> Given:
    with zipfile.ZipFile(folder / "scans.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("scan.pdf", CONTENT)
    opened = zipfile.ZipFile(folder / "scans.zip")
    member = opened.open("scan.pdf")
    return Given(member, [member.close, opened.close])


def _pipe(buffering: int) -> Callable[[Path], Given]:
    def make(_: Path) -> Given:
        with pipe_with(b"what a pipe holds") as reading:
            return _open(open(reading, "rb", buffering=buffering))  # noqa: PTH123

    return make


def _form_with_pipe(buffering: int) -> Callable[[Path], Given]:
    def make(folder: Path) -> Given:
        pipe = _pipe(buffering)(folder)
        return Given(Multipart({"kind": "scan"}, {"front": pipe.content}), pipe.close)

    return make


async def _stream() -> AsyncIterator[bytes | bytearray | memoryview]:
    yield b""
    yield bytearray(CONTENT[:100])
    yield b""
    yield memoryview(CONTENT[100:])


@dataclass(frozen=True)
class Kind:
    """A form in which a document is given.

    Attributes:
        give: Make it; it may use a folder.
        sent: Its bytes; None for a form, which has a boundary in them.
        replayable: Whether it can be sent a second time.
    """

    give: Callable[[Path], Given]
    sent: bytes | None = CONTENT
    replayable: bool = True


KINDS: Final[dict[str, Kind]] = {
    "bytes": Kind(lambda _: Given(CONTENT)),
    "empty bytes": Kind(lambda _: Given(b""), b""),
    "text": Kind(lambda _: Given("Zürich"), "Zürich".encode()),
    "mapping": Kind(lambda _: Given({"status": "ok"}), JSON),
    "list": Kind(lambda _: Given([{"status": "ok"}]), b"[" + JSON + b"]"),
    "model": Kind(lambda _: Given(Status(status="ok")), JSON),
    "path": Kind(lambda folder: Given(written(folder, "scan.pdf", CONTENT))),
    "large path": Kind(lambda folder: Given(written(folder, "scan.pdf", LARGE)), LARGE),
    "empty path": Kind(lambda folder: Given(written(folder, "scan.pdf", b"")), b""),
    "buffered file": Kind(_buffered),
    "unbuffered file": Kind(_unbuffered),
    "file in memory": Kind(lambda _: _open(io.BytesIO(CONTENT))),
    "empty file in memory": Kind(lambda _: _open(io.BytesIO()), b""),
    "file in its middle": Kind(_in_its_middle),
    "memory in its middle": Kind(_in_memory_in_its_middle),
    "spooled in memory": Kind(_spooled(0)),
    "spooled on disk": Kind(_spooled(1)),
    "temporary file": Kind(_temporary),
    "member of an archive": Kind(_member),
    "form": Kind(
        lambda folder: Given(
            Multipart({"kind": "scan"}, {"front": written(folder, "scan.pdf", CONTENT)})
        ),
        None,
    ),
    "pipe": Kind(_pipe(-1), b"what a pipe holds", replayable=False),
    "unbuffered pipe": Kind(_pipe(0), b"what a pipe holds", replayable=False),
    "unseekable": Kind(lambda _: _open(Unseekable(CONTENT)), replayable=False),
    "stream": Kind(lambda _: Given(_stream()), replayable=False),
    "form with a pipe": Kind(_form_with_pipe(-1), None, replayable=False),
    "form with an unbuffered pipe": Kind(_form_with_pipe(0), None, replayable=False),
    "form with what is unseekable": Kind(
        lambda _: Given(Multipart({}, {"front": Unseekable(CONTENT)})), None, replayable=False
    ),
}
OPEN: Final = [name for name, kind in KINDS.items() if "file" in name or "memory" in name]


@contextmanager
def given(name: str, folder: Path) -> Iterator[Any]:
    """Give a document of a kind; afterwards close it."""
    made = KINDS[name].give(folder)
    try:
        yield made.content
    finally:
        for close in made.close:
            close()
