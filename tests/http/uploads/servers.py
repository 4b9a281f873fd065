"""Servers that take uploads in, and files that are read the hard way."""

import asyncio
import io
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tests.support.raw_server import OK, raw_server


@dataclass(frozen=True)
class Upload:
    """A request as a server took it in.

    Attributes:
        headers: By their names in lower case.
        body: Without the framing.
        whole: Whether it came to its end.
    """

    headers: dict[str, str]
    body: bytes
    whole: bool


def answer(status: int) -> bytes:
    return f"HTTP/1.1 {status} -\r\nContent-Length: 0\r\n\r\n".encode()


class Taker:
    """Takes uploads in and answers each as it was told; the last answer is repeated.

    None in place of an answer is to hang up.

    Attributes:
        answers: Those that are left.
        uploads: What came.
        ended: Set when a connection has ended.
    """

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers or (OK,))
        self.uploads: list[Upload] = []
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection for a server that does not expect it to end."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await self.handle(reader, writer)
        writer.transport.abort()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._take(reader, writer)
        finally:
            self.ended.set()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = head.decode("latin-1").split("\r\n")[1:-2]
            headers = {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines}
            body = bytearray()
            try:
                async for piece in _body_of(headers, reader):
                    body += piece
            except (asyncio.IncompleteReadError, ConnectionError):
                self.uploads.append(Upload(headers, bytes(body), whole=False))
                return
            self.uploads.append(Upload(headers, bytes(body), whole=True))
            reply = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if reply is None:
                return
            writer.write(reply)


async def _body_of(headers: dict[str, str], reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Read a body with a length or in chunks (RFC 9112, 7.1)."""
    left = int(headers.get("content-length", 0))
    while left:
        piece = await reader.read(min(left, 2**16))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        yield piece
    while headers.get("transfer-encoding") == "chunked":
        size = int(await reader.readuntil(b"\r\n"), 16)
        yield (await reader.readexactly(size + 2))[:-2]
        if not size:
            return


@asynccontextmanager
async def taking(*answers: bytes | None) -> AsyncIterator[tuple[str, Taker]]:
    """Serve uploads on a free port; yield the address and what takes them in."""
    taker = Taker(*answers)
    async with raw_server(taker.handle) as url:
        yield url, taker


@contextmanager
def pipe_with(content: bytes) -> Iterator[int]:
    """Open a pipe that holds some bytes and has no writer any more; yield the end to read."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    yield reading


class Unseekable(io.BytesIO):
    """A file in memory that cannot go back, as what comes from a network cannot."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise io.UnsupportedOperation

    def tell(self) -> int:
        raise io.UnsupportedOperation


class Changing(io.BytesIO):
    """A file in memory that has another size once its first piece was read."""

    def __init__(self, content: bytes, change: Callable[["Changing"], object]) -> None:
        super().__init__(content)
        self._change = change
        self._changed = False

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        if piece and not self._changed:
            self._changed = True
            position = self.tell()
            self._change(self)
            self.seek(position)
        return piece


def grow(file: BinaryIO) -> None:
    """Put something at the end."""
    file.seek(0, io.SEEK_END)
    file.write(b"more")


def shrink(file: BinaryIO) -> None:
    """Cut the last byte off."""
    file.truncate(file.seek(0, io.SEEK_END) - 1)


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


async def threads_end() -> None:
    """Wait until no thread reads for an upload."""
    for thread in threading.enumerate():
        if thread.name == "gateway-upload":
            await asyncio.to_thread(thread.join, 10)
            assert not thread.is_alive()


def open_files_below(folder: Path) -> list[Path]:
    if sys.platform != "linux":
        return []
    targets = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    return [target for target in targets if folder in target.parents]
