"""A server that counts what it gets, and hashes it if that is asked for.

It copies nothing and keeps nothing, so that it is not what takes the time of an upload.
"""

import asyncio
import hashlib
from typing import Final

from benchmarks.gateway_server import reply
from benchmarks.processes import serve_protocol

HASHED: Final = "/hashed"
"""The prefix of the addresses of what is hashed."""
BUFFER: Final = 2**18
CHUNKED: Final = b"\r\ntransfer-encoding: chunked\r\n"
LENGTH: Final = b"\r\ncontent-length: "
LONGEST: Final = 1024
"""Bytes that are read as text at a time: a chunk may follow them."""
LINE, HEAD = b"\r\n", b"\r\n\r\n"


class Upload(asyncio.BufferedProtocol):
    """One connection; what it reads is as good as its clients, which are ours."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(BUFFER))
        self._begin()

    def _begin(self) -> None:
        self._text, self._end = b"", HEAD  # what is read as text, and how that ends
        self._left = self._behind = 0  # bytes of the content, and behind it, until more text
        self._is_last = self._is_hashed = False
        self._count, self._digest = 0, hashlib.sha256()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take note of where to write."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for type checkers
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where to read to."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Count what was read, and answer every request that is complete."""
        at = 0
        while at < nbytes:
            given = self._buffer[at:nbytes]
            if self._left:
                at += self._take(given[: self._left])
            elif self._behind:
                at += (passed := min(self._behind, len(given)))
                self._behind -= passed
            else:
                at += self._read(given)
            if self._is_last and not (self._left or self._behind):
                self._answer()

    def _take(self, content: memoryview) -> int:
        if self._is_hashed:
            self._digest.update(content)
        self._count += len(content)
        self._left -= len(content)
        return len(content)

    def _read(self, given: memoryview) -> int:
        """Read a head, or the size of a chunk (RFC 9112, 7.1); return the bytes of it."""
        before = len(self._text)
        self._text += bytes(given[:LONGEST])
        end = self._text.find(self._end) + len(self._end)
        if end < len(self._end):
            return len(self._text) - before
        text, self._text = self._text[:end].lower(), b""
        if self._end == LINE:
            self._left, self._behind = int(text, 16), len(LINE)
            self._is_last = not self._left
        else:
            self._is_hashed = HASHED.encode() in text.partition(LINE)[0]
            self._left = int(text.partition(LENGTH)[2].partition(LINE)[0] or b"0")
            self._is_last, self._end = CHUNKED not in text, LINE
        return end - before

    def _answer(self) -> None:
        """Answer with the number of bytes and their digest."""
        told = {"bytes": self._count, "sha256": self._digest.hexdigest()}
        self._transport.write(reply(200, told))
        self._begin()


if __name__ == "__main__":
    asyncio.run(serve_protocol(Upload))
