"""Items on a Dask cluster of two workers, which starts and ends with the run."""

import os
import time
from typing import Any

from benchmarks.cluster import small
from benchmarks.measures.load import Figures
from gateway_sdk import cluster


async def measure(variant: str, url: str, given: dict[str, Any]) -> Figures:
    """Measure seconds from start to end of few items, and this program's CPU time of one more."""
    del variant
    os.environ |= {"GATEWAY_BASE_URL": url, "GATEWAY_ACCESS_TOKEN": "-"}
    few, many = given["items"]
    seconds, _ = await _run(few)  # with the import of Dask
    (_, less), (_, more) = await _run(few), await _run(many)
    return {"seconds": seconds, "cpu_ms": 1000 * (more - less) / (many - few)}


async def _run(items: int) -> tuple[float, float]:
    began, before, done = time.perf_counter(), time.process_time(), 0
    async for result in cluster.run(small, range(items), workers=2, chunk=100):
        done += result.error is None
    if done != items:
        raise ValueError("an item failed")
    return time.perf_counter() - began, time.process_time() - before
