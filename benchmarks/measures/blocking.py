"""How long the event loop lets others wait, while callers keep it busy."""

import asyncio
import time
from typing import Any, Final

from benchmarks.measures.latency import percentile
from benchmarks.measures.load import Figures, counted, drive, warm
from benchmarks.peers import PEERS

TICK: Final = 0.001


async def measure(peer: str, url: str, given: dict[str, Any]) -> Figures:
    """Measure in milliseconds how late a timer is that is due every millisecond."""
    late: list[float] = []
    async with PEERS[peer].open(url, given["callers"]) as call:
        await warm(call, given["callers"])
        ticking = asyncio.create_task(tick(late))
        await asyncio.sleep(0)
        seen = await counted(url, lambda: drive(call, given["callers"], given["seconds"]))
        ticking.cancel()
    late.sort()
    return {
        "late_p50_ms": percentile(late, 50) * 1000,
        "late_p99_ms": percentile(late, 99) * 1000,
        "late_max_ms": late[-1] * 1000,
        "calls_per_s": seen["calls_per_s"],
    }


async def tick(late: list[float]) -> None:
    """Wake up again and again and note how late that was."""
    while True:
        due = time.perf_counter() + TICK
        await asyncio.sleep(TICK)
        late.append(max(0.0, time.perf_counter() - due))
