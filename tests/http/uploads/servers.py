"""Servers that take uploads in, and files that are read the hard way."""

import asyncio
import io
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gateway_sdk import GatewaySession
from tests.support.raw_server import OK, body_of, field, raw_server


@dataclass(frozen=True)
class Upload:
    """A request as a server took it in."""

    head: bytes
    body: bytes  # without the framing
    whole: bool  # whether it came to its end

    @property
    def framing(self) -> list[str]:
        names = ("Content-Type", "Content-Length", "Transfer-Encoding")
        return [field(self.head, name) for name in names]


def session(url: str, **options: Any) -> GatewaySession:
    return GatewaySession(url, access_token="token", retry=None, **options)


def answer(status: int) -> bytes:
    return f"HTTP/1.1 {status} -\r\nContent-Length: 0\r\n\r\n".encode()


class Taker:
    """Takes uploads in and answers each as it was told; the last answer is repeated."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers or (OK,))  # those that are left
        self.uploads: list[Upload] = []
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            body = bytearray()
            try:
                async for piece in body_of(head, reader):
                    body += piece
            except (asyncio.IncompleteReadError, ConnectionError):
                self.uploads.append(Upload(head, bytes(body), whole=False))
                return
            self.uploads.append(Upload(head, bytes(body), whole=True))
            writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


@asynccontextmanager
async def taking(*answers: bytes) -> AsyncIterator[tuple[str, Taker]]:
    taker = Taker(*answers)
    async with raw_server(taker.handle) as url:
        yield url, taker


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
    file.seek(0, io.SEEK_END)
    file.write(b"more")


def shrink(file: BinaryIO) -> None:
    file.truncate(file.seek(0, io.SEEK_END) - 1)


def written(folder: Path, name: str, content: bytes) -> Path:
    (folder / name).write_bytes(content)
    return folder / name


async def threads_end() -> None:
    for thread in threading.enumerate():
        if thread.name == "gateway-upload":
            await asyncio.to_thread(thread.join, 10)
            assert not thread.is_alive()


def open_files_below(folder: Path) -> list[Path]:
    if sys.platform != "linux":
        return []
    targets = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    return [target for target in targets if folder in target.parents]
