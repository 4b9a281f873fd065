"""How long calls take at a fixed rate, counted from when each was due.

Calls start when they are due whether or not earlier ones have ended (an open loop), so that a
client that falls behind is not excused from the calls that it should have made meanwhile.
"""

import asyncio
import time
from typing import Any, Final

from benchmarks.measures.load import Figures, counted
from benchmarks.peers import PEERS
from benchmarks.peers.request import Call, check

CONNECTIONS: Final = 50


async def measure(peer: str, url: str, given: dict[str, Any]) -> Figures:
    """Measure percentiles in milliseconds at `rate` calls per second for `seconds`."""
    rate, count = given["rate"], int(given["rate"] * given["seconds"])
    took: list[float] = []
    async with PEERS[peer].open(url, CONNECTIONS) as call:
        await at_rate(call, rate, rate // 2)
        seen = await counted(url, lambda: at_rate(call, rate, count, took))
    took.sort()
    return {
        **{f"p{percent}_ms": percentile(took, percent) * 1000 for percent in (50, 95, 99)},
        "max_ms": took[-1] * 1000,
        "cpu_us": seen["cpu_us"],
    }


async def at_rate(call: Call, rate: float, count: int, took: list[float] | None = None) -> int:
    """Make so many calls at a rate, and note what each took."""
    began = time.perf_counter()

    async def one(due: float) -> None:
        check(await call())
        if took is not None:
            took.append(time.perf_counter() - due)

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            due = began + number / rate
            if (left := due - time.perf_counter()) > 0:
                await asyncio.sleep(left)
            group.create_task(one(due))
    return count


def percentile(ordered: list[float], percent: int) -> float:
    """Return the smallest value that so many percent of all values do not exceed."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
