"""A server that counts what it gets, and hashes it if that is asked for."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from typing import Final

from benchmarks.processes import serve

HASHED: Final = "/hashed"
"""The prefix of the addresses of what is hashed."""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of a connection with the number of bytes and their digest."""
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        hashed = HASHED.encode() in head.partition(b"\r\n")[0]
        count, digest = 0, hashlib.sha256()
        async for piece in body_of(head, reader):
            count += len(piece)
            if hashed:
                digest.update(piece)
        body = json.dumps({"bytes": count, "sha256": digest.hexdigest()}).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )


async def body_of(head: bytes, reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Read a body with a length, in chunks, or none (RFC 9112, 6)."""
    head = head.lower()
    if b"\r\ntransfer-encoding: chunked\r\n" in head:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            yield await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readexactly(2)
        return
    left = int(head.partition(b"\r\ncontent-length: ")[2].partition(b"\r\n")[0] or b"0")
    while left:
        piece = await reader.read(min(left, 2**18))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        yield piece


if __name__ == "__main__":
    asyncio.run(serve(answer))
