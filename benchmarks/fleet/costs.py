"""What a fleet costs beside `bulk.run`: CPU time per query, and of the start of a process."""

import asyncio
import sys
from dataclasses import astuple, dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.fleet.jobs import items, make_job
from benchmarks.fleet.kills import environment, gateway_variables, submit
from benchmarks.processes import child, server
from benchmarks.tables import head, row

CPU_BUDGET: Final = 1.3
"""Of the CPU time of a query of `bulk.run` in one process; of chunks of the default size."""

DEFAULT_CHUNK: Final = 250


@dataclass(frozen=True, slots=True)
class Way:
    """One way to make the queries."""

    kind: str  # of `benchmarks.fleet.cost`
    queue: str = ""  # of a worker: "rabbitmq", "nats"
    chunk: int = DEFAULT_CHUNK
    keeps: bool = False  # whether `bulk.run` writes a journal

    @property
    def name(self) -> str:
        """What the table calls it."""
        if self.kind == "bulk.run":
            return "`bulk.run`, journal" if self.keeps else "`bulk.run`"
        place = f"worker, {self.queue}" if self.queue else "`--here`"
        return f"{place}, chunks of {self.chunk}"


PEER: Final = Way("bulk.run")
KEPT: Final = Way("bulk.run", keeps=True)
WAYS: Final = (
    PEER,
    KEPT,
    Way("here"),
    *(Way("worker", queue) for queue in ("rabbitmq", "nats")),
    *(Way("worker", "rabbitmq", chunk) for chunk in (100, 1000)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a way, medians of all rounds."""

    way: str
    query: float  # CPU milliseconds, without the start
    beside: float  # the same divided by `bulk.run` in the same round
    beside_journal: float  # and by `bulk.run` with a journal
    start: float  # CPU seconds until the first query, as if none had been made


async def costs(
    folder: Path, dsn: str, queues: dict[str, str], *, number: int, rounds: int
) -> list[Cost]:
    """Measure all ways in turn, in rounds, with so many queries in each process."""
    found: dict[Way, list[tuple[float, float]]] = {way: [] for way in WAYS}
    with server("fleet.gateway") as gateway, environment(**gateway_variables(gateway)):
        for turn in range(rounds):
            for place, way in enumerate(WAYS):
                name = f"cost-{turn}-{place}"
                with environment(
                    FLEET_JOB=name,
                    FLEET_BROKER=queues.get(way.queue, ""),
                    FLEET_STORE=dsn,
                    FLEET_RATE="0",
                    FLEET_STARTS="9",
                    FLEET_LEASE="30",
                ):
                    found[way].append(await _measured(way, number, folder / f"{name}.jsonl"))
    peer, kept = ([query for query, _ in found[way]] for way in (PEER, KEPT))
    return [
        Cost(
            way=way.name,
            query=median(query for query, _ in figures),
            beside=median(q / p for (q, _), p in zip(figures, peer, strict=True)),
            beside_journal=median(q / k for (q, _), k in zip(figures, kept, strict=True)),
            start=median(start for _, start in figures),
        )
        for way, figures in found.items()
    ]


async def _measured(way: Way, number: int, journal: Path) -> tuple[float, float]:
    """Return CPU milliseconds per query and CPU seconds of the start of one process."""
    if way.kind != "bulk.run":
        async with make_job() as job:
            plan = await job.plan(items(number, 0), chunk=way.chunk)
            if way.queue:
                await submit(plan, job)
    command = [sys.executable, "-m", "benchmarks.fleet.cost", way.kind, str(number)]
    command += [str(journal)] if way.keeps else []
    output, *_ = await asyncio.to_thread(child, command)
    query, start = map(float, output.split())
    return query, start


def lines(found: list[Cost]) -> list[str]:
    """Return a table."""
    columns = ("CPU of one process", "ms per query", "÷ `bulk.run`", "÷ with a journal", "start, s")
    return [head(columns)] + [
        row([name, *(f"{figure:.3f}" for figure in figures)])
        for name, *figures in map(astuple, found)
    ]


def missed(found: list[Cost]) -> list[str]:
    """Say what costs too much, with chunks of the default size."""
    judged = {way.name for way in WAYS if way.kind != "bulk.run" and way.chunk == DEFAULT_CHUNK}
    return [
        f"CPU of {cost.way}: {cost.beside:.2f} > {CPU_BUDGET}"
        for cost in found
        if cost.way in judged and cost.beside > CPU_BUDGET
    ]
