"""The floor: asyncio's streams and a request that is ready to be sent."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from benchmarks.peers.request import HEADERS, JSON, PATH, Call


@asynccontextmanager
async def open_sockets(url: str, connections: int) -> AsyncIterator[Call]:
    """Keep as many connections as there are callers, who are no more than *connections*."""
    del connections
    host, port, prefix = urlsplit(url).hostname, urlsplit(url).port, urlsplit(url).path
    head = (
        f"POST {prefix}{PATH} HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Authorization: {HEADERS['Authorization']}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(JSON)}\r\n\r\n"
    )
    request = head.encode() + JSON
    idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def call() -> Any:
        reader, writer = idle.pop() if idle else await asyncio.open_connection(host, port)
        writer.write(request)
        reply = await reader.readuntil(b"\r\n\r\n")
        length = int(reply.partition(b"Content-Length: ")[2].partition(b"\r")[0])
        value = json.loads(await reader.readexactly(length))
        idle.append((reader, writer))
        if not reply.startswith(b"HTTP/1.1 200 "):
            raise ValueError("that is a refusal")
        return value

    try:
        yield call
    finally:
        for _, writer in idle:
            writer.close()
        await asyncio.gather(*(writer.wait_closed() for _, writer in idle))
