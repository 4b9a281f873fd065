"""The CPU time of a query in one process: `python -m benchmarks.fleet.cost KIND ITEMS [JOURNAL]`.

KIND is "bulk.run" (with the file of a journal, or without), "here" (the step without a queue) or
"worker" (what `taskiq worker` runs); both work on the plan of the environment, which is stored and
submitted already. It prints two numbers: milliseconds of CPU time per query, and CPU seconds of the
start: imports, connections, and what the first queries load.
"""

import asyncio
import functools
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from taskiq.receiver import Receiver

from benchmarks.fleet import jobs
from gateway_sdk import GatewaySession, bulk, fleet
from gateway_sdk.fleet._worker import settle

WARM: Final = 500
"""Queries after which the start is over."""


class Counted:
    """The function of the job, which counts its calls and reads the CPU time."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._ended = 0
        self._warm = 0.0
        self.all_ended = asyncio.Event()

    def wrap(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return the function with the same name, which a plan is for."""

        @functools.wraps(call)
        async def counted(gateway: GatewaySession, item: dict[str, Any]) -> Any:
            try:
                return await call(gateway, item)
            finally:
                self._ended += 1
                if self._ended == WARM:
                    self._warm = time.process_time()
                if self._ended == self._number:
                    self.all_ended.set()

        return counted

    def told(self) -> tuple[float, float]:
        """Return milliseconds per query and the seconds of the start, when all is stored."""
        query = (time.process_time() - self._warm) / (self._number - WARM)
        return 1000 * query, self._warm - WARM * query


async def of_bulk(counted: Counted, number: int, journal: dict[str, Any]) -> None:
    """Use `bulk.run`."""
    call = counted.wrap(jobs.call)
    async with GatewaySession.from_env() as gateway:
        async for result in bulk.run(
            lambda item: call(gateway, item),
            jobs.items(number, 0),
            concurrency=jobs.CONCURRENCY,
            **journal,
        ):
            if result.error:
                raise result.error


async def of_here(counted: Counted) -> None:
    """Run the chunks as `gateway bulk worker --here` does."""
    job = jobs.make_job(counted.wrap(jobs.call))
    async with job.worker() as worker:
        settle()
        await worker.run_missing(await job.load())


async def of_worker(counted: Counted) -> None:
    """Run the chunks that a queue delivers."""
    job = jobs.make_job(counted.wrap(jobs.call))
    broker = jobs.make_broker()
    fleet.on_taskiq(broker, job)
    broker.is_worker_process = True
    end = asyncio.Event()
    receiver = Receiver(broker, max_async_tasks=2, run_startup=True)
    listening = asyncio.create_task(receiver.listen(end))
    plan = await job.load()
    await counted.all_ended.wait()
    while not (await plan.status()).is_complete:  # noqa: ASYNC110 - the last results are stored
        await asyncio.sleep(0.02)
    print(*counted.told(), flush=True)
    end.set()
    await listening
    await broker.shutdown()
    await job.aclose()


async def main(kind: str, number: int, *journal: str) -> None:
    """Do the work, and print the figures."""
    counted = Counted(number)
    if kind == "worker":
        await of_worker(counted)
        return
    if kind == "here":
        await of_here(counted)
    else:
        kept = {"journal": journal[0], "job": "benchmark"} if journal else {}
        await of_bulk(counted, number, kept)
    print(*counted.told())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
