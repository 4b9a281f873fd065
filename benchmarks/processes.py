"""Servers in processes of their own, and what a process costs."""

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

MIB: Final = 2**20
ROOT: Final = Path(__file__).parent.parent
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextmanager
def server(module: str, *arguments: str) -> Iterator[str]:
    """Run a module that serves in another process, and yield its address."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    pipe = subprocess.PIPE
    # What is run is ours.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as process:  # noqa: S603
        try:
            output, _ = process.stdout, process.stdin
            yield f"http://127.0.0.1:{int(output.readline() if output else 0)}"
        finally:
            if process.stdin:
                process.stdin.close()  # which is what it waits for


def child(command: list[str], stdin: IO[bytes] | None = None) -> tuple[bytes, float, float]:
    """Run a command; return what it prints, and its seconds of the clock and of CPU time."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # What is run is ours.
    output = subprocess.run(  # noqa: S603
        command, stdin=stdin, stdout=subprocess.PIPE, check=True, cwd=ROOT
    ).stdout
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return output, seconds, cpu


async def serve(handler: Handler) -> None:
    """Serve on a free port, which is printed, until the standard input ends."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away
        finally:
            writer.transport.abort()

    await _until_told(
        await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**18, backlog=1000)
    )


async def serve_protocol(factory: Callable[[], asyncio.BaseProtocol]) -> None:
    """Serve as `serve` does, with less between the network and who answers."""
    loop = asyncio.get_running_loop()
    await _until_told(await loop.create_server(factory, "127.0.0.1", 0, backlog=1000))


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


async def _until_told(listening: asyncio.Server) -> None:
    print(listening.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


def peak_memory() -> float:
    """Return the most that this process ever held in memory, in MiB."""
    peak = _status("VmHWM")
    if peak is not None:
        return peak
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage / (MIB if sys.platform == "darwin" else 1024)


def memory() -> float:
    """Return what this process holds in memory, in MiB; the most it ever did where Linux is not."""
    held = _status("VmRSS")
    return peak_memory() if held is None else held


def _status(name: str) -> float | None:
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    line = next(text for text in status.read_text().splitlines() if text.startswith(name))
    return int(line.split()[1]) / 1024


def open_files() -> int:
    """Return how many file descriptors this process has."""
    return len(os.listdir("/dev/fd")) - 1  # noqa: PTH208 - but for the one that lists them
