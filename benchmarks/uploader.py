"""One large upload in a process of its own, and what it cost; see `benchmarks.upload`."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.processes import peak_memory
from gateway_sdk import GatewaySession, Multipart

PIECE: Final = 64 * 1024
TARGET: Final = "/aml/1.0.0/document/upload"
TICK: Final = 0.005
VARIANTS: Final = (
    "httpx file",
    "httpx stream",
    "gateway file",
    "gateway stream",
    "gateway form",
)
"""Who sends, and what."""


@dataclass
class Seen:
    """What was seen while a document was uploaded.

    Attributes:
        progress: The numbers that were told.
        late: The longest that the event loop was not free, in seconds.
    """

    progress: list[int] = field(default_factory=list)
    late: float = 0.0

    async def watch(self) -> None:
        """Wake up again and again and see how late that was."""
        while True:
            due = time.perf_counter() + TICK
            await asyncio.sleep(TICK)
            self.late = max(self.late, time.perf_counter() - due)


def pieces(path: Path) -> Iterator[bytes]:
    """Read a document in pieces."""
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE):
            yield piece


async def stream(path: Path) -> AsyncIterator[bytes]:
    """Read a document as a stream; from the cache of the system that takes no time."""
    for piece in pieces(path):
        yield piece


async def by_gateway(url: str, content: Any, seen: Seen) -> dict[str, Any]:
    """Upload with the SDK."""
    async with GatewaySession(
        url,
        access_token="-",  # noqa: S106
        trust_env=False,
    ) as gateway:
        reply: dict[str, Any] = await gateway.aml.upload_document(
            content, on_progress=lambda sent, _: seen.progress.append(sent)
        )
    return reply


async def by_httpx(url: str, content: AsyncIterator[bytes], length: int | None) -> dict[str, Any]:
    """Upload with the bare engine, over as many connections: one."""
    headers = {"Authorization": "Bearer -", "Content-Type": "application/octet-stream"}
    if length is not None:
        headers["Content-Length"] = str(length)
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(limits=limits, timeout=30, trust_env=False) as client:
        reply = await client.post(url + TARGET, headers=headers, content=content)
    result: dict[str, Any] = reply.json()
    return result


async def upload(variant: str, url: str, path: Path, seen: Seen) -> dict[str, Any]:
    """Upload a document in one of the ways."""
    length = await asyncio.to_thread(lambda: path.stat().st_size)
    match variant.split():
        case ["gateway", "file"]:
            return await by_gateway(url, path, seen)
        case ["gateway", "stream"]:
            return await by_gateway(url, stream(path), seen)
        case ["gateway", _]:
            return await by_gateway(url, Multipart({}, {"document": path}), seen)
        case [_, "file"]:
            return await by_httpx(url, stream(path), length)
        case _:
            return await by_httpx(url, stream(path), None)


async def measure(variant: str, url: str, small: Path, path: Path) -> dict[str, Any]:
    """Upload a small document and then a large one, and say what the large one cost."""
    await upload(variant, url, small, Seen())
    baseline = peak_memory()
    seen = Seen()
    watching = asyncio.create_task(seen.watch())
    await asyncio.sleep(0)
    cpu, began = time.process_time(), time.perf_counter()
    reply = await upload(variant, url, path, seen)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    watching.cancel()
    told = seen.progress
    return {
        "bytes": reply["bytes"],
        "sha256": reply["sha256"],
        "seconds": seconds,
        "cpu_seconds": cpu,
        "memory_growth_mib": peak_memory() - baseline,
        "blocked_ms": seen.late * 1000,
        "progress_ok": told == sorted(set(told)) and told[-1:] in ([], [reply["bytes"]]),
        "progress_told": len(told),
    }


if __name__ == "__main__":
    which, address, *paths = sys.argv[1:]
    print(json.dumps(asyncio.run(measure(which, address, *map(Path, paths)))))
