"""One large upload, and what it cost; the server says what has arrived.

`curl -T FILE` sends with a length, and `curl -T -` in chunks.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.measures.load import Figures
from benchmarks.processes import MIB, child, peak_memory
from benchmarks.upload_server import HASHED
from gateway_sdk import GatewaySession, Multipart

PIECE: Final = 64 * 1024
TARGET: Final = "/aml/1.0.0/document/upload"
TICK: Final = 0.005
CURL: Final = (
    *("curl", "--silent", "--show-error", "--noproxy", "*"),
    *("--request", "POST", "--header", "Expect:", "--write-out", "\n%{time_total}"),
)
"""Without `Expect` it would wait for a second: the server sends no interim reply."""

Reply = dict[str, Any]


async def measure(variant: str, url: str, given: dict[str, Any]) -> Figures:
    """Upload `mib`, and look at the content that arrived; with `hashed`, at each byte of it."""
    small, path = (document(Path(given["folder"], str(mib)), mib) for mib in (1, given["mib"]))
    url += (HASHED if given["hashed"] else "") + TARGET
    if variant.startswith("curl"):
        reply, figures = by_curl(variant, url, path)
    else:
        await upload(variant, url, small, [])  # its memory is no part of what the large one needs
        reply, figures = await by_client(variant, url, path)
    check(reply, path, is_form=variant.endswith("form"), hashed=given["hashed"])
    return {**figures, "mib_per_second": given["mib"] / figures["seconds"]}


def document(path: Path, mib: int) -> Path:
    """Write a document, sparse where the disk allows it: each MiB has its number, and zeros."""
    if not path.exists():
        with path.open("wb") as file:
            for number in range(mib):
                file.seek(number * MIB)
                file.write(number.to_bytes(8))
            file.truncate(mib * MIB)
    return path


def check(reply: Reply, path: Path, *, is_form: bool, hashed: bool) -> None:
    """Refuse a measure if something else arrived than was sent."""
    size, count = path.stat().st_size, reply["bytes"]
    fine = count > size if is_form else count == size  # a form has more around the document
    if fine and hashed and not is_form:
        with path.open("rb") as file:
            fine = hashlib.file_digest(file, "sha256").hexdigest() == reply["sha256"]
    if not fine:
        raise ValueError("what arrived is not what was sent")


def by_curl(variant: str, url: str, path: Path) -> tuple[Reply, Figures]:
    """Upload with curl, whose own start is no part of the time that it prints."""
    with path.open("rb") as file:
        what = "-" if variant.endswith("stream") else str(path)
        output, _, cpu = child([*CURL, "--upload-file", what, url], file)
    reply, _, seconds = output.rpartition(b"\n")
    return json.loads(reply), {"seconds": float(seconds), "cpu_seconds": cpu}


async def by_client(variant: str, url: str, path: Path) -> tuple[Reply, Figures]:
    """Upload in this process, and see what it needs."""
    late, told, baseline = [0.0], list[int](), peak_memory()
    watching = asyncio.create_task(watch(late))
    await asyncio.sleep(0)
    cpu, began = time.process_time(), time.perf_counter()
    reply = await upload(variant, url, path, told)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    watching.cancel()
    whole = told == sorted(set(told)) and told[-1:] == [reply["bytes"]]
    if variant.startswith("gateway") and not whole:
        raise ValueError("the progress that was told is wrong")
    return reply, {
        "seconds": seconds,
        "cpu_seconds": cpu,
        "memory_growth_mib": peak_memory() - baseline,
        "blocked_ms": max(late) * 1000,
    }


async def watch(late: list[float]) -> None:
    """Wake up again and again, and note how late that was."""
    while True:
        due = time.perf_counter() + TICK
        await asyncio.sleep(TICK)
        late.append(time.perf_counter() - due)


def pieces(path: Path) -> Iterator[bytes]:
    """Read a document in pieces; from the cache of the system this takes no time."""
    with path.open("rb", buffering=0) as file:
        while piece := file.read(PIECE):
            yield piece


async def stream(path: Path) -> AsyncIterator[bytes]:
    """Read a document as a stream."""
    for piece in pieces(path):
        yield piece


async def upload(variant: str, url: str, path: Path, told: list[int]) -> Reply:
    """Upload a document in one of the ways."""
    client, kind = variant.split()
    reply: Reply
    if client == "gateway":
        content: Any = path if kind == "file" else stream(path)
        content = Multipart({}, {"document": path}) if kind == "form" else content
        async with GatewaySession(
            url.removesuffix(TARGET),
            access_token="-",  # noqa: S106
            trust_env=False,
        ) as gateway:
            reply = await gateway.aml.upload_document(
                content, on_progress=lambda sent, _: told.append(sent)
            )
        return reply
    headers = {"Authorization": "Bearer -", "Content-Type": "application/octet-stream"}
    if kind == "file":
        headers["Content-Length"] = str((await asyncio.to_thread(path.stat)).st_size)
    limits = httpx.Limits(max_connections=1)
    async with httpx.AsyncClient(limits=limits, timeout=30, trust_env=False) as http:
        reply = (await http.post(url, headers=headers, content=stream(path))).json()
    return reply
