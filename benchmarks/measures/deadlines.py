"""How late calls end that wait when their deadline passes."""

import asyncio
import time
from typing import Any, Final

from benchmarks.measures.load import Figures, after
from gateway_sdk import DeadlineExceededError, GatewaySession

DEADLINE: Final = 1.0


async def measure(variant: str, url: str, given: dict[str, Any]) -> Figures:
    """Measure how late the last of `calls` ends, in milliseconds."""
    del variant
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
        for _ in range(given["calls"]):
            group.create_task(call(gateway))
    return {"late_ms": late * 1000}
