"""The trials: workers do a plan, which is compared with what the gateway counted."""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen
from tempfile import TemporaryDirectory
from typing import Any, Final, Self
from urllib.request import urlopen

from benchmarks.fleet.jobs import items
from benchmarks.processes import ROOT, server
from gateway_sdk.fleet import Job
from tests.support.postgres_server import PostgresServer

LEASE: Final = 6.0
PLAN: Final = "p"


def ask(gateway: str, path: str = "/statistics") -> dict[str, Any]:
    """Ask the gateway of a trial."""
    with urlopen(gateway + path) as reply:  # noqa: S310 - our own server
        found: dict[str, Any] = json.load(reply)
    return found


@dataclass
class Place:
    """Where a trial takes place: a database, a gateway, workers."""

    database: PostgresServer
    dsn: str
    gateway: str
    rate: int
    log: Any = DEVNULL

    def environment(self) -> dict[str, str]:
        """Return the variables of the workers."""
        return {
            **os.environ,
            "FLEET_DATABASE": self.dsn,
            "FLEET_RATE": str(self.rate),
            "FLEET_LEASE": str(LEASE),
            "GATEWAY_BASE_URL": self.gateway,
            "GATEWAY_TENANT_ID": "t",
            "GATEWAY_ACCESS_TOKEN": "token",
        }

    def worker(self) -> Popen[bytes]:
        """Start a worker."""
        program = "from gateway_sdk.cli import main; main()"
        return Popen(  # noqa: S603 - ours
            [sys.executable, "-c", program, "fleet", "worker", "benchmarks.fleet.jobs:trial"],
            env=self.environment(), cwd=ROOT, stdout=self.log, stderr=self.log,
        )  # fmt: skip

    def job(self) -> Job:
        """Make the job of the trial, for this process."""
        from benchmarks.fleet import jobs  # noqa: PLC0415 - for the address

        return Job("trial", function=jobs.call, database=self.dsn, lease=LEASE)


@contextmanager
def place(rate: int = 600, latency: float = 0.02) -> Iterator[Place]:
    """Start a database and a gateway."""
    database = PostgresServer()
    try:
        database.create()
        database.start()
        with server("fleet.gateway", str(latency)) as gateway:
            dsn = asyncio.run(database.new_database())
            made = Place(database, dsn, gateway, rate)
            asyncio.run(made.job().init())
            yield made
    finally:
        database.remove()


class Workers:
    """Worker processes, each started again when it has ended."""

    def __init__(self, where: Place, number: int) -> None:
        self._place = where
        self.deaths = 0
        self.by_themselves: list[int] = []  # their exit statuses
        self._killed: set[int] = set()
        self._stopped: dict[int, float] = {}
        self.processes = [where.worker() for _ in range(number)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def kill_one(self) -> None:
        """Kill a worker, if it runs."""
        process = random.choice(self.processes)  # noqa: S311 - a trial
        if process.poll() is None and process.pid not in self._stopped:
            self._killed.add(process.pid)
            process.kill()

    def stop_one(self, seconds: float) -> None:
        """Stop a worker for some seconds, if it runs."""
        process = random.choice(self.processes)  # noqa: S311 - a trial
        if process.poll() is None and process.pid not in self._stopped:
            process.send_signal(signal.SIGSTOP)
            self._stopped[process.pid] = time.monotonic() + seconds

    def tend(self) -> None:
        """Wake who was stopped for long enough, start again who ended."""
        for index, process in enumerate(self.processes):
            if time.monotonic() > self._stopped.get(process.pid, float("inf")):
                process.send_signal(signal.SIGCONT)
                del self._stopped[process.pid]
            if process.poll() is not None:
                self.deaths += 1
                if process.pid not in self._killed:
                    self.by_themselves.append(process.returncode)
                self.processes[index] = self._place.worker()

    def end(self) -> list[int]:
        """Ask all to end; return their exit statuses."""
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        return [process.wait(30) for process in self.processes]


async def until_complete(where: Place, workers: Workers, events: Mapping[float, Any]) -> float:
    """Let the workers do the plan; return the seconds. Events are called at their times."""
    job, began = where.job(), time.monotonic()
    left = dict(sorted(events.items()))
    while True:
        now = time.monotonic() - began
        for at in [at for at in left if at < now]:
            await asyncio.to_thread(left.pop(at))
        workers.tend()
        try:
            if (await job.status(PLAN)).is_complete:
                return time.monotonic() - began
        except Exception as error:
            if "database" not in str(error):
                raise
        await asyncio.sleep(0.1)


async def kills(
    where: Place, *, number: int, once: int, workers: int, killed: int, stops: int, database: bool
) -> dict[str, Any]:
    """Kill and stop workers, and restart the database, while a plan is done."""
    job = where.job()
    await job.plan(PLAN, items(number, once), chunk=100)
    ideal = number / where.rate
    spread = (ideal - 1) / max(1, killed)
    with Workers(where, workers) as running:
        events: dict[float, Any] = {
            1 + n * spread + random.random() * 0.1: running.kill_one  # noqa: S311 - a trial
            for n in range(killed)
        }
        for n in range(stops):
            events[5.01 + n * ideal / 4] = lambda: running.stop_one(1.5 * LEASE)
        if database:

            def restart() -> None:
                where.database.kill()
                time.sleep(1)
                where.database.start()

            events[ideal / 2] = restart
        seconds = await until_complete(where, running, events)
        await asyncio.sleep(1.5 * LEASE if stops else 0)  # those that were stopped tell late
        running.tend()
        exits = running.end()
        by_themselves = running.by_themselves
    status = await job.status(PLAN)
    counted = ask(where.gateway)
    unknown = [row["item"]["number"] async for row in job.unknown(PLAN)]
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out.ndjson"
        await job.collect(PLAN, out, rates=False)
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    sent = counted["customers"]
    return {
        "seconds": round(seconds, 1),
        "ideal": round(ideal, 1),
        "ratio": round(seconds / ideal, 2),
        "done": status.done,
        "failed": status.failed,
        "lost": number - status.done - status.failed - status.unknown,
        "rows": len(rows),
        "rows_in_order": [row["item"]["number"] for row in rows] == list(range(number)),
        "values": sum(row["value"] is not None for row in rows),
        "executed_again": counted["requests"] - counted["queries"] - len(sent),
        "once_twice": sum(count > 1 for count in sent.values()),
        "unknown": len(unknown),
        "unknown_never_sent": sum(f"c{n}" not in sent for n in unknown),
        "ended_by_themselves": by_themselves,
        "exits": exits,
    }


async def poison(where: Place, *, number: int = 1000) -> dict[str, Any]:
    """One item kills each worker that does it."""
    job = where.job()
    await job.plan(PLAN, items(number, 0, poison=number // 3), chunk=100)
    with Workers(where, 2) as running:
        seconds = await until_complete(where, running, {})
        deaths = running.deaths
        exits = running.end()
    status = await job.status(PLAN)
    failed = [(row["number"], row["message"]) async for row in job.failed(PLAN)]
    return {
        "seconds": round(seconds, 1), "deaths": deaths, "done": status.done, "failed": failed,
        "exits": exits,
    }  # fmt: skip


async def outage(where: Place, *, number: int, seconds: float) -> dict[str, Any]:
    """The gateway answers 503 for a while."""
    job = where.job()
    await job.plan(PLAN, items(number, 0), chunk=100)
    waiting: list[str] = []
    with Workers(where, 2) as running:
        events = {
            2.0: lambda: ask(where.gateway, "/mode/503"),
            2.0 + seconds - 1: lambda: waiting.extend(asyncio.run(_reasons(job))),
            2.0 + seconds: lambda: ask(where.gateway, "/mode/200"),
        }
        took = await until_complete(where, running, events)
        exits = running.end()
    status = await job.status(PLAN)
    return {
        "seconds": round(took, 1), "done": status.done, "failed": status.failed,
        "waiting": waiting, "exits": exits,
    }  # fmt: skip


async def _reasons(job: Job) -> list[str]:
    return [f"{one.workers}: {one.reason}" for one in (await job.status(PLAN)).waiting]


async def term(where: Place) -> dict[str, Any]:
    """SIGTERM at 80 % of a chunk, and a plan that is submitted while an old worker runs."""
    job = where.job()
    await job.plan(PLAN, items(250, 0), chunk=250)
    with Workers(where, 1) as running:
        while ask(where.gateway)["requests"] < 200:  # noqa: ASYNC110, PLR2004 - 80 %
            await asyncio.sleep(0.02)
        exits = running.end()
    kept = (await job.status(PLAN)).done
    with Workers(where, 1) as running:
        await until_complete(where, running, {})
        counted = ask(where.gateway)
        await job.plan("later", items(300, 0), chunk=100)
        while not (await job.status("later")).is_complete:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        exits += running.end()
    again = counted["requests"] - counted["queries"]
    return {"kept": kept, "again": again, "exits": exits, "later": (await job.status("later")).done}
