"""Many calls to a server that takes its time: how near to the ideal they are."""

import asyncio
from typing import Any, Final

from benchmarks.measures.load import Figures, after, counted, warm
from benchmarks.peers import OURS, PEERS
from benchmarks.peers.request import Call, check

CONCURRENCY: Final = 50


async def measure(peer: str, url: str, given: dict[str, Any]) -> Figures:
    """Make `calls` calls at each latency: their time, divided by what they take at least."""
    figures: Figures = {}
    for milliseconds in given["latencies"]:
        name = peer.partition(",")[0]
        async with PEERS[name].open(after(url, milliseconds), CONCURRENCY) as call:
            await warm(call, CONCURRENCY)
            make = by_bulk if peer == OURS else by_tasks
            await make(call, CONCURRENCY)  # imports what it needs
            seen = await counted(url, lambda: make(call, given["calls"]))  # noqa: B023
        seconds = seen["calls"] / seen["calls_per_s"]
        ideal = -(-given["calls"] // CONCURRENCY) * milliseconds / 1000
        figures[f"to_ideal {milliseconds}"] = seconds / ideal
    return figures


async def by_bulk(call: Call, calls: int) -> int:
    """Make the calls with `bulk.run`."""
    from gateway_sdk import bulk  # noqa: PLC0415 - the peers' processes are without it

    made = 0
    async for result in bulk.run(lambda _: call(), range(calls), concurrency=CONCURRENCY):
        check(result.value)
        made += 1
    return made


async def by_tasks(call: Call, calls: int) -> int:
    """Make the calls with as many tasks as there may be calls at once."""
    made, left = 0, iter(range(calls))

    async def task() -> None:
        nonlocal made
        for _ in left:
            check(await call())
            made += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(CONCURRENCY):
            group.create_task(task())
    return made
