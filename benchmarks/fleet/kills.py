"""Runs a plan on workers, kills what a scenario says, and counts what became of each item."""

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.request import urlopen

from benchmarks.fleet.jobs import items, make_broker, make_job
from benchmarks.fleet.workers import Workers
from benchmarks.processes import server
from gateway_sdk import fleet

PATIENCE: Final = 60.0
"""Seconds beyond three times the ideal time after which a run is given up."""

LOOKS: Final = 100
"""Looks at the store in the ideal time; each of them counts all results."""

Deed = tuple[float, str, Callable[[], None]]
"""When something is done (in seconds), what it is called, and what it is."""


class Server(Protocol):
    """A queue or a store that can be killed."""

    def start(self) -> None:
        """Start it."""

    def kill(self) -> None:
        """End it without a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The servers of a run, each with its address, and the file to which workers write."""

    queue: tuple[str, Server]
    store: tuple[str, Server]
    log: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is done, and what is killed meanwhile."""

    name: str  # of the job too
    items: int = 2000
    once: int = 20  # items among them that must not be made twice
    workers: int = 4
    rate: int = 50  # requests per second of each worker; 0 for no limit
    chunk: int = 50
    kills: int = 0  # of workers at random times; they are started again
    ends: int = 0  # the same with SIGTERM
    queue_kills: int = 0
    store_kills: int = 0
    submits: int = 1
    lease: float = 30.0  # seconds after which NATS delivers a chunk again
    poison: int | None = None  # the index of an item that kills its worker
    last: bool = False  # whether all workers are killed in the last chunks, with an empty queue
    seed: int = 1

    @property
    def ideal(self) -> float:
        """The seconds that the rate of the workers alone takes."""
        return self.items / (self.workers * self.rate) if self.rate else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What became of a plan."""

    seconds: float = 0.0
    submitted: int = 0  # messages
    done: int
    failed: int
    unknown: int
    lost: int  # items of which the store knows nothing at the end
    repeated: int  # requests for queries that the gateway had got before
    twice: int  # items that the results hold twice
    once_twice: int  # items that must not be made twice, and that the gateway got twice
    unlisted: int  # such items that the gateway got, and neither done nor in `unknown()`
    broken: int  # chunks that were put away
    cpu: float = 0.0  # seconds of all workers
    deeds: tuple[str, ...] = ()  # what was killed

    @property
    def is_sound(self) -> bool:
        """Whether every promise was kept."""
        lost = 0 if self.broken else self.lost
        return not (self.failed or lost or self.twice or self.once_twice or self.unlisted)


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables of the environment for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value


async def run(scenario: Scenario, place: Place) -> Figures:
    """Run a scenario; leave no process running."""
    with (
        server("fleet.gateway") as gateway,
        environment(
            FLEET_JOB=scenario.name,
            FLEET_BROKER=place.queue[0],
            FLEET_STORE=place.store[0],
            FLEET_RATE=str(scenario.rate),
            FLEET_LEASE=str(scenario.lease),
            FLEET_STARTS="3" if scenario.poison is not None else "50",
            **gateway_variables(gateway),
        ),
    ):
        async with make_job() as job:
            work = items(scenario.items, scenario.once, poison=scenario.poison)
            plan = await job.plan(work, chunk=scenario.chunk)
            submitted = sum([await submit(plan, job) for _ in range(scenario.submits)])
            workers = Workers(scenario.workers, place.log)
            try:
                seconds, deeds = await _watched(scenario, plan, workers, place)
            finally:
                await asyncio.to_thread(workers.stop, signal.SIGTERM)
            told = await asyncio.to_thread(statistics, gateway)
            figures = await _counted(plan, place.store[0], told)
    return replace(
        figures, seconds=seconds, submitted=submitted, cpu=workers.cpu, deeds=tuple(deeds)
    )


def gateway_variables(url: str) -> dict[str, str]:
    """Return the variables with which a session finds the gateway."""
    return {
        "GATEWAY_BASE_URL": url,
        "GATEWAY_ACCESS_TOKEN": "benchmark",
        "GATEWAY_TENANT_ID": "benchmark",
    }


async def submit(plan: fleet.Plan, job: fleet.Job) -> int:
    """Send a message for each chunk with something left; return how many."""
    broker = make_broker()
    fleet.on_taskiq(broker, job)
    await broker.startup()
    try:
        return await plan.submit(broker)
    finally:
        await broker.shutdown()


async def _watched(
    scenario: Scenario, plan: fleet.Plan, workers: Workers, place: Place
) -> tuple[float, list[str]]:
    """Do what is to be done until the plan has ended; return the seconds, and what was done."""
    began, done = time.monotonic(), list[str]()
    deeds = _deeds(scenario, workers, place)
    restarts: list[asyncio.Task[None]] = []
    is_last = scenario.last
    while (left := await _left(plan)) and time.monotonic() - began < 3 * scenario.ideal + PATIENCE:
        while deeds and deeds[0][0] <= time.monotonic() - began:
            _, name, act = deeds.pop(0)
            doing = asyncio.create_task(asyncio.to_thread(act))
            if name in ("queue", "store"):  # workers are killed meanwhile too, each at its time
                restarts.append(doing)
            else:
                await doing
            done.append(name)
        if is_last and left <= scenario.chunk * len(workers):  # each has one at least
            is_last = False
            done += ["last worker"] * len(workers)
            for index in range(len(workers)):
                workers.kill(index)
        done += ["ended by itself"] * workers.revive()
        await asyncio.sleep(max(scenario.ideal / LOOKS, 0.05))
    seconds = time.monotonic() - began
    await asyncio.gather(*restarts)
    return seconds, done


def _deeds(scenario: Scenario, workers: Workers, place: Place) -> list[Deed]:
    """Return what is done when, in the order of time."""
    chance = random.Random(scenario.seed)  # noqa: S311 - the same each time
    deeds: list[Deed] = []

    def add(number: int, name: str, act: Callable[[], None], first: float, last: float) -> None:
        times = [chance.uniform(first, last) * scenario.ideal for _ in range(number)]
        deeds.extend((at, name, act) for at in times)

    def any_of(act: Callable[[int], None]) -> Callable[[], None]:
        return lambda: act(chance.randrange(scenario.workers))

    add(scenario.kills, "worker", any_of(workers.kill), 0.08, 0.92)
    add(scenario.ends, "SIGTERM", any_of(workers.replace), 0.08, 0.92)
    add(scenario.queue_kills, "queue", partial(_restart, place.queue[1]), 0.3, 0.7)
    add(scenario.store_kills, "store", partial(_restart, place.store[1]), 0.3, 0.7)
    return sorted(deeds, key=lambda deed: deed[0])


def _restart(server: Server) -> None:
    server.kill()
    server.start()


async def _left(plan: fleet.Plan) -> int:
    """Return how many items are left, but for those of chunks that were put away."""
    status = await plan.status()
    left = status.missing + status.begun
    held = len(status.broken) * plan.record.chunk_size
    return 0 if status.broken and left <= held and not status.running else left


async def _counted(plan: fleet.Plan, dsn: str, gateway: dict[str, Any]) -> Figures:
    """Compare what the store knows with what the gateway got."""
    status = await plan.status()
    listed = {json.loads(record.item)["number"] async for record in plan.unknown()}
    indexes: list[int] = []
    done: set[int] = set()
    store = fleet.PostgresStore(dsn)
    async for records in store.results(plan.record):
        indexes += [record.index for record in records]
        done |= {record.index for record in records if record.state == "done"}
    await store.aclose()
    customers = {int(name[1:]): number for name, number in gateway["customers"].items()}
    return Figures(
        done=status.done,
        failed=sum(status.failed.values()),
        unknown=status.unknown,
        lost=status.missing + status.begun,
        repeated=gateway["requests"] - sum(customers.values()) - gateway["queries"],
        twice=len(indexes) - len(set(indexes)),
        once_twice=sum(number > 1 for number in customers.values()),
        unlisted=len(customers.keys() - done - listed),
        broken=len(status.broken),
    )


def statistics(url: str) -> dict[str, Any]:
    """Return what the gateway counted."""
    with urlopen(f"{url}/statistics", timeout=30) as reply:  # noqa: S310 - ours
        told: dict[str, Any] = json.load(reply)
    return told
