"""Run many coroutines, a few at a time."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any


async def run_all(calls: AsyncIterator[Coroutine[Any, Any, Any]], *, at_once: int) -> int:
    """Run coroutines, and return their number; the first error of one cancels the others."""
    running: set[asyncio.Task[Any]] = set()
    count = 0
    try:
        async for call in calls:
            running.add(asyncio.create_task(call))
            count += 1
            if len(running) >= at_once:
                running = await _some_ended(running, asyncio.FIRST_COMPLETED)
        while running:
            running = await _some_ended(running, asyncio.FIRST_EXCEPTION)
        return count
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _some_ended(running: set[asyncio.Task[Any]], when: str) -> set[asyncio.Task[Any]]:
    """Wait for some tasks, raise the error of one, and return those that go on."""
    ended, others = await asyncio.wait(running, return_when=when)
    for task in ended:
        if not task.cancelled() and task.exception() is None:
            running.discard(task)
    for task in ended:
        task.result()
    return others
