"""Batches are written one at a time, and the error of one is not lost."""

import asyncio
from collections.abc import Sequence

import pytest

from gateway_sdk.errors import PlanStoreError
from gateway_sdk.fleet._store import ItemRecord
from gateway_sdk.fleet._writer import Writer
from tests.fleet.plans import done


async def test_results_after_a_batch_that_failed_do_not_hide_its_error() -> None:
    """Else the chunk would end well without them."""
    written: list[int] = []
    failing, fail = asyncio.Event(), asyncio.Event()

    async def write(records: Sequence[ItemRecord]) -> None:
        if not fail.is_set():
            failing.set()
            await fail.wait()
            raise PlanStoreError("the store has not answered")
        written.extend(record.index for record in records)

    writer = Writer(write, 25)
    writer.add(done(0), at_once=True)
    await failing.wait()
    fail.set()
    for _ in range(3):
        await asyncio.sleep(0)
    writer.add(done(1), at_once=True)

    with pytest.raises(PlanStoreError):
        writer.check()
    with pytest.raises(PlanStoreError):
        await writer.finish()
    assert written == []
