"""What a fleet costs beside `bulk.run`: CPU time per query, and of the start of a process."""

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.fleet.jobs import items, make_job
from benchmarks.fleet.kills import environment, gateway_variables, submit
from benchmarks.processes import ROOT, server

CPU_BUDGET: Final = 1.3
"""Of the CPU time of a query of `bulk.run` in one process; of chunks of the default size."""

DEFAULT_CHUNK: Final = 250


@dataclass(frozen=True, slots=True)
class Way:
    """One way to make the queries; without a store it is `bulk.run`.

    Attributes:
        queue: "rabbitmq", "nats", or "" for none.
        store: "postgres", "folder", or "" for none.
        keeps: Whether `bulk.run` writes a journal.
    """

    queue: str = ""
    store: str = ""
    chunk: int = DEFAULT_CHUNK
    keeps: bool = False

    @property
    def name(self) -> str:
        """What the table calls it."""
        if not self.store:
            return "`bulk.run`, journal" if self.keeps else "`bulk.run`"
        place = f"worker, {self.queue}" if self.queue else "`--here`"
        return f"{place}, {self.store}, chunks of {self.chunk}"


PEER: Final = Way()
KEPT: Final = Way(keeps=True)
QUEUES, STORES = ("rabbitmq", "nats"), ("folder", "postgres")
WAYS: Final = (
    PEER,
    KEPT,
    *(Way(queue, store) for queue in ("", *QUEUES) for store in STORES),
    *(Way("rabbitmq", store, chunk) for chunk in (100, 1000) for store in STORES),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of a way, medians of all rounds.

    Attributes:
        query: CPU milliseconds of a query, without the start.
        beside: The same beside `bulk.run` in the same round.
        beside_journal: And beside `bulk.run` with a journal.
        start: CPU seconds until the first query, as if none had been made.
    """

    way: str
    query: float
    beside: float
    beside_journal: float
    start: float


async def costs(
    folder: Path, dsn: str, queues: dict[str, str], *, number: int, rounds: int
) -> list[Cost]:
    """Measure all ways in turn, in rounds.

    Args:
        folder: For journals and stores.
        dsn: Of an empty database.
        queues: The addresses of RabbitMQ and NATS.
        number: Queries of each process.
        rounds: How often.
    """
    found: dict[Way, list[tuple[float, float]]] = {way: [] for way in WAYS}
    with server("fleet.gateway") as gateway, environment(**gateway_variables(gateway)):
        for turn in range(rounds):
            for place, way in enumerate(WAYS):
                name = f"cost-{turn}-{place}"
                store = dsn if way.store == "postgres" else str(folder / name)
                with environment(
                    FLEET_JOB=name,
                    FLEET_BROKER=queues.get(way.queue, ""),
                    FLEET_STORE=store,
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
    if way.store:
        async with make_job() as job:
            plan = await job.plan(items(number, 0), chunk=way.chunk)
            if way.queue:
                await submit(plan, job)
    kind = ("worker" if way.queue else "here") if way.store else "bulk.run"
    command = [sys.executable, "-m", "benchmarks.fleet.cost", kind, str(number)]
    command += [str(journal)] if way.keeps else []
    query, start = map(float, (await asyncio.to_thread(_output_of, command)).split())
    return query, start


def _output_of(command: list[str]) -> str:
    # What is run is ours.
    return subprocess.run(  # noqa: S603
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=300
    ).stdout


def lines(found: list[Cost]) -> list[str]:
    """Return a table."""
    return [
        "| CPU time of one process | ms per query | ÷ `bulk.run` | ÷ with a journal | start, s |",
        "|---|---|---|---|---|",
        *(
            f"| {cost.way} | {cost.query:.3f} | {cost.beside:.2f} | {cost.beside_journal:.2f}"
            f" | {cost.start:.2f} |"
            for cost in found
        ),
    ]


def missed(found: list[Cost]) -> list[str]:
    """Say what costs too much, with chunks of the default size."""
    judged = {way.name for way in WAYS if way.store and way.chunk == DEFAULT_CHUNK}
    return [
        f"CPU of {cost.way}: {cost.beside:.2f} > {CPU_BUDGET}"
        for cost in found
        if cost.way in judged and cost.beside > CPU_BUDGET
    ]
