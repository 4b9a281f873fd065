"""Callers that call again and again, and what the server says of it."""

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks.peers.request import Call, check

WARM_UP: Final = 0.15
"""Seconds."""

Figures = dict[str, float]
"""What one process measured: a number by name."""


def after(url: str, milliseconds: int) -> str:
    """Return the address at which the server takes its time."""
    return f"{url}/{milliseconds}ms" if milliseconds else url


def ask(url: str) -> dict[str, Any]:
    """Ask the server for its statistics, with nothing that the peers use."""
    address = urlsplit(url)
    with socket.create_connection((str(address.hostname), address.port or 80)) as line:
        line.sendall(b"GET /statistics HTTP/1.1\r\n\r\n")
        with line.makefile("rb") as file:
            while not (header := file.readline()).startswith(b"Content-Length: "):
                pass
            file.readline()
            found: dict[str, Any] = json.loads(file.read(int(header.partition(b" ")[2])))
    return found


async def warm(call: Call, callers: int) -> None:
    """Open connections little by little, and fill caches.

    Opening all of them at once would make httpx four times as slow for as long as they are open:
    it looks at every idle one before each request. The peers are measured at their best.
    """
    check(await call())
    await drive(call, callers, WARM_UP)


async def drive(call: Call, callers: int, seconds: float) -> int:
    """Have so many callers call for so long; return the calls, all of which have ended."""
    made, end = 0, time.perf_counter() + seconds

    async def caller() -> None:
        nonlocal made
        while True:
            check(await call())
            made += 1
            if time.perf_counter() >= end:
                return

    async with asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(caller())
    return made


async def counted(url: str, work: Callable[[], Awaitable[int]]) -> Figures:
    """Have work done that makes calls, and say what it cost here and at the server.

    Returns:
        `calls`, `cpu_us` and `server_us` per call, `calls_per_s`, `server_busy` (0 to 1).

    Raises:
        ValueError: the server saw another number of calls.
    """
    before = ask(url)
    wall, cpu = time.perf_counter(), time.process_time()
    calls = await work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    now = ask(url)
    if (seen := now["requests"] - before["requests"]) != calls:
        raise ValueError(f"{calls} calls were made, and the server saw {seen}")
    at_server = now["cpu_seconds"] - before["cpu_seconds"]
    return {
        "calls": calls,
        "cpu_us": cpu / calls * 1e6,
        "server_us": at_server / calls * 1e6,
        "calls_per_s": calls / wall,
        "server_busy": at_server / wall,
    }
