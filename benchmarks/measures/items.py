"""What `bulk.run` takes for an item, and what the item leaves in memory."""

import gc
import itertools
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.measures.load import Figures
from benchmarks.processes import MIB, memory
from gateway_sdk import bulk

WARM: Final = 0.1
"""The share of the items after which memory is looked at for the first time."""
WITH_JOURNAL: Final = 0.1
"""The share of the items that a run with a journal has."""


async def measure(kind: str, url: str, given: dict[str, Any]) -> Figures:
    """Measure a run without a journal, with a new one, or with one that has all results."""
    del url
    if kind == "no journal":
        return await run(given["items"], {})
    journal = Path(given["folder"]) / "journal.db"
    journal.unlink(missing_ok=True)
    count, options = int(given["items"] * WITH_JOURNAL), {"journal": journal, "job": "benchmark"}
    figures = await run(count, options)
    return figures if kind == "journal" else await run(count, options)


async def run(count: int, options: dict[str, Any]) -> Figures:
    """Run over so many items that do nothing."""

    async def call(number: int) -> int:
        return number

    done, before, began = 0, 0.0, time.perf_counter()
    async for _ in bulk.run(call, itertools.islice(itertools.count(), count), **options):
        done += 1
        if done == int(count * WARM):
            gc.collect()
            before = memory()
    seconds = time.perf_counter() - began
    if done != count:
        raise ValueError(f"{done} of {count} items were done")
    left = (memory() - before) * MIB / (count * (1 - WARM))
    return {"us": seconds / count * 1e6, "bytes": max(0.0, left)}
