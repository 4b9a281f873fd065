"""Memory does not grow with the number of items; a key costs one digest."""

import gc
import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import bulk
from gateway_sdk.bulk import _limit
from tests.bulk.runs import JOB, same

WARM, WINDOW, WINDOWS = 300, 300, 3
"""Items before the first measurement, and between two of them."""

TIMES = 100
"""Of successes, which the limit of calls keeps: a run grows until it has so many."""

PER_KEY = 250
"""Bytes of a digest, a place in the file, and an entry in the table of them, which doubles.

docs/bulk.md says 150, which was measured with 100 000 keys; from one count to the next the table
is more or less full.
"""


@pytest.mark.parametrize("options", [{}, {"ordered": True}, {"concurrency": 8}, {"job": JOB}])
async def test_memory_does_not_grow_with_the_items(
    path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(_limit, "_KEPT", TIMES)
    journal, per_item = (path, PER_KEY) if "job" in options else (None, 1)

    async def call(number: int) -> str:
        return str(number) * 100

    used, done = list[int](), itertools.count(1 - WARM)
    tracemalloc.start()
    try:
        items = iter(range(WARM + WINDOWS * WINDOW))
        async for _ in bulk.run(call, items, journal=journal, **options):
            if next(done) in range(0, WINDOWS * WINDOW + 1, WINDOW):
                gc.collect()
                used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()

    grown = [after - before for before, after in itertools.pairwise(used)]
    assert len(grown) == WINDOWS
    # What other threads of this process keep is counted too, but it does not grow each time.
    assert min(grown) < per_item * WINDOW


EARLIER = 5_000


async def test_a_key_of_an_earlier_run_costs_as_much(path: Path) -> None:
    async for _ in bulk.run(same, range(EARLIER), journal=path, job=JOB):
        pass

    tracemalloc.start()
    try:
        run = bulk.run(same, range(EARLIER), journal=path, job=JOB)
        await anext(run)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    await run.aclose()

    assert peak < PER_KEY * EARLIER
