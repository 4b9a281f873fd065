"""How late calls end that wait when their deadline passes, and what is sent after one."""

import asyncio
import time
from typing import Any, Final

from benchmarks.measures.load import Figures, after, ask
from gateway_sdk import DeadlineExceededError, GatewaySession

DEADLINE: Final = 1.0
SHORT: Final = 0.05
WRITES: Final = 200
TURNS: Final = 5
"""Turns of the event loop before it stands still: some of the writes have been sent by then."""


async def measure(variant: str, url: str, given: dict[str, Any]) -> Figures:
    """Measure how late the last of `calls` ends, in milliseconds, and count what is sent late."""
    del variant
    return {"late_ms": await _ended_late(url, given["calls"]), "sent_late": await _sent_late(url)}


async def _sent_late(url: str) -> float:
    async with GatewaySession(url, access_token="-", deadline=SHORT, retry=None) as gateway:  # noqa: S106
        writes = [asyncio.create_task(gateway.aml.upload_document(b"x")) for _ in range(WRITES)]
        for _ in range(TURNS):
            await asyncio.sleep(0)
        time.sleep(2 * SHORT)  # noqa: ASYNC251 - code that holds the event loop
        before = ask(url)["requests"]
        await asyncio.gather(*writes, return_exceptions=True)
    return float(ask(url)["requests"] - before)


async def _ended_late(url: str, calls: int) -> float:
    late = 0.0

    async def call(gateway: GatewaySession) -> None:
        nonlocal late
        began = time.perf_counter()
        try:
            await gateway.country_data.list_countries()
        except DeadlineExceededError:
            late = max(late, time.perf_counter() - began - DEADLINE)
        else:
            raise ValueError("the call did not wait")

    slow = after(url, 10_000)
    async with (
        GatewaySession(slow, access_token="-", deadline=DEADLINE) as gateway,  # noqa: S106
        asyncio.TaskGroup() as group,
    ):
        for _ in range(calls):
            group.create_task(call(gateway))
    return late * 1000
