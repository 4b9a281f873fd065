"""What a fleet costs: permits, CPU time of an item, and a million items."""

import asyncio
import json
import multiprocessing
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg

from benchmarks.fleet import jobs, trials
from benchmarks.processes import memory
from gateway_sdk import GatewaySession, RateLimit, bulk
from gateway_sdk.fleet import Job
from gateway_sdk.fleet._database import Database, ReservingLimiter

CALLERS = 25


async def _take(dsn: str, rate: int, start: float, seconds: float) -> list[float]:
    async with Database(dsn) as database:
        limiter = ReservingLimiter(database, f"r{rate}", RateLimit(rate))
        taken: list[float] = []

        async def call() -> None:
            while time.time() < start + seconds:
                await limiter.enter()
                if time.time() < start + seconds:
                    taken.append(time.time())

        await asyncio.sleep(max(0.0, start - time.time()))
        await asyncio.gather(*(call() for _ in range(CALLERS)))
    return taken


def _process(dsn: str, rate: int, start: float, seconds: float, results: Any) -> None:
    results.put(asyncio.run(_take(dsn, rate, start, seconds)))


def permits(where: trials.Place, rate: int, processes: int, seconds: float = 10) -> dict[str, Any]:
    """Let processes take permits; return how many each got, and the most in any second."""
    results: Any = multiprocessing.Queue()
    given = (where.dsn, rate, time.time() + 2, seconds, results)
    running = [multiprocessing.Process(target=_process, args=given) for _ in range(processes)]
    for process in running:
        process.start()
    taken = [results.get() for _ in running]
    for process in running:
        process.join()
    each = sorted(len(times) for times in taken)
    every = sorted(at for times in taken for at in times)
    first = most = 0
    for index, at in enumerate(every):
        while every[first] <= at - 1:
            first += 1
        most = max(most, index - first + 1)
    return {"rate": rate, "processes": processes, "each": each, "most_in_a_second": most}


async def cpu(where: trials.Place, number: int = 4000) -> dict[str, float]:
    """Return milliseconds of CPU time per item: of `bulk.run` with a journal, and of a worker."""
    found = {}
    items = list(jobs.items(number, 0))
    async with GatewaySession(where.gateway, access_token="t", tenant_id="t") as gateway:  # noqa: S106

        async def call(item: dict[str, Any]) -> Any:
            return await jobs.call(gateway, item)

        with TemporaryDirectory() as folder:
            kept: dict[str, Any] = {"journal": Path(folder) / "j.db", "job": "j"}
            runs: dict[str, dict[str, Any]] = {"bulk.run": {}, "with a journal": kept}
            for name, more in runs.items():
                began = time.process_time()
                async for _ in bulk.run(call, items, concurrency=50, **more):
                    pass
                found[name] = (time.process_time() - began) / number * 1000
    job = Job(
        "trial", function=jobs.call, database=where.dsn, concurrency=50,
        session={"base_url": where.gateway, "access_token": "t", "tenant_id": "t"},
    )  # fmt: skip
    await job.plan("cpu", items)
    async with job.worker() as worker:
        began = time.process_time()
        running = asyncio.create_task(worker.run())
        while not (await job.status("cpu")).is_complete:  # noqa: ASYNC110 - a trial
            await asyncio.sleep(0.5)
        found["a worker"] = (time.process_time() - began) / number * 1000
        worker.stop()
        await running
    return {name: round(ms, 3) for name, ms in found.items()}


async def million(where: trials.Place, number: int = 1_000_000) -> dict[str, Any]:
    """Plan and collect a million items, whose results are made in the database."""
    job, found = where.job(), {}
    began = time.perf_counter()
    await job.plan("m", jobs.items(number, 0))
    found["plan, s"] = time.perf_counter() - began
    value = json.dumps(
        {"base": "EUR", "rates": {f"2026-01-{n:02}": {"USD": 1 + n / 100} for n in range(1, 31)}}
    )
    async with await psycopg.AsyncConnection.connect(where.dsn, autocommit=True) as connection:
        await connection.execute(
            "insert into gateway_fleet.result select id, n, 'done', false, %s::json, null, 1, 0,"
            " null from gateway_fleet.plan, generate_series(0, %s) n",
            [value, number - 1],
        )
        await connection.execute("update gateway_fleet.chunk set done = total, open = false")
    began = time.perf_counter()
    await job.status("m")
    found["status, ms"] = (time.perf_counter() - began) * 1000
    before, began = memory(), time.perf_counter()
    with TemporaryDirectory() as folder:
        out = Path(folder) / "m.ndjson"
        rows = (await job.collect("m", out, rates=False)).rows
        found["collect, s"] = time.perf_counter() - began
        found["file, MB"] = out.stat().st_size / 1e6
    found["more memory, MiB"] = memory() - before
    return {"rows": rows, **{name: round(figure, 1) for name, figure in found.items()}}
