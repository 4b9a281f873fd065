"""The CPU time of a query in one process: `python -m benchmarks.fleet.cost KIND ITEMS [FILE]`.

KIND is "bulk.run", "journal" (the same with a journal in FILE) or "fleet": a worker, on the queue
and the store of the environment. The first queries are not measured: they load modules. It prints
milliseconds per query.
"""

import asyncio
import sys
import time
from typing import Any, Final

from taskiq.receiver import Receiver

from benchmarks.fleet.jobs import CONCURRENCY, call, items, make_broker, make_job
from benchmarks.fleet.kills import submit
from gateway_sdk import GatewaySession, bulk, fleet

WARM: Final = 500
"""Queries that are not measured."""


async def of_bulk(number: int, journal: dict[str, Any]) -> float:
    """Return the CPU seconds of a query of `bulk.run`."""
    began, seen = 0.0, 0
    async with GatewaySession.from_env(engine="asyncio") as gateway:
        async for result in bulk.run(
            lambda item: call(gateway, item),
            items(number, 0),
            concurrency=CONCURRENCY,
            **journal,
        ):
            seen += 1
            if result.error:
                raise result.error
            if seen == WARM:
                began = time.process_time()
    return (time.process_time() - began) / (number - WARM)


async def of_fleet(number: int) -> float:
    """Return the CPU seconds of a query of a worker."""
    job = make_job()
    plan = await job.plan(items(number, 0), chunk=100)
    await submit(plan, job)
    broker = make_broker()
    fleet.on_taskiq(broker, job)
    broker.is_worker_process = True
    end = asyncio.Event()
    listening = asyncio.create_task(
        Receiver(broker, max_async_tasks=2, run_startup=True).listen(end)
    )
    while (first := (await plan.status()).done) < WARM:  # noqa: ASYNC110 - as users look
        await asyncio.sleep(0.05)
    began = time.process_time()
    while not (await plan.status()).is_complete:  # noqa: ASYNC110 - the same
        await asyncio.sleep(0.2)
    seconds = time.process_time() - began
    end.set()
    await listening
    await broker.shutdown()
    await job.aclose()
    return seconds / (number - first)


if __name__ == "__main__":
    kind, number, *file = sys.argv[1:]
    kept = {"journal": file[0], "job": "benchmark"} if file else {}
    run = of_fleet(int(number)) if kind == "fleet" else of_bulk(int(number), kept)
    print(1000 * asyncio.run(run))
