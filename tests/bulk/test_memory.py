"""Memory does not grow with the number of items; a key costs one digest."""

import gc
import itertools
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import bulk

WARM, COUNT = 1_000, 3_000

PER_KEY = 250
"""Bytes of a digest, a place in the file, and an entry in the table of them, which doubles.

docs/bulk.md says 150, which was measured with 100 000 keys; from one count to the next the table
is more or less full.
"""


def journal(folder: Path) -> dict[str, Any]:
    """Return the options of a run with a journal."""
    return {"journal": folder / "journal.jsonl", "job": "memory"}


@pytest.mark.parametrize(
    ("options", "per_item"),
    [
        (lambda _: {}, 1.0),
        pytest.param(lambda _: {"ordered": True}, 1.0, marks=pytest.mark.full),
        pytest.param(lambda _: {"concurrency": "adaptive"}, 1.0, marks=pytest.mark.full),
        (journal, PER_KEY),
    ],
    ids=["plain", "ordered", "adaptive", "journal"],
)
async def test_memory_does_not_grow_with_the_items(
    tmp_path: Path, options: Callable[[Path], dict[str, Any]], per_item: float
) -> None:
    """After many items the same memory is used as after a few, however large each item is."""

    async def call(number: int) -> str:
        return str(number) * 100

    done = 0
    before = 0
    tracemalloc.start()
    try:
        items = itertools.islice(itertools.count(), COUNT)
        async for _ in bulk.run(call, items, **options(tmp_path)):
            done += 1
            if done == WARM:
                gc.collect()
                before = tracemalloc.get_traced_memory()[0]
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()

    assert done == COUNT
    assert after - before < per_item * (COUNT - WARM)


EARLIER = 10_000


@pytest.mark.parametrize(
    ("drops", "per_key"), [(False, 250), pytest.param(True, 400, marks=pytest.mark.full)]
)
async def test_a_key_of_an_earlier_run_costs_as_much(
    tmp_path: Path, drops: bool, per_key: float
) -> None:
    """Also at the peak, which is higher where lines are dropped."""

    async def call(number: int) -> int:
        if drops and not number:
            raise LookupError
        return number

    async for _ in bulk.run(call, range(EARLIER), **journal(tmp_path)):
        pass

    tracemalloc.start()
    try:
        run = bulk.run(call, range(EARLIER), retry_failed=drops, **journal(tmp_path))
        await anext(run)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    await run.aclose()

    assert peak < per_key * EARLIER
