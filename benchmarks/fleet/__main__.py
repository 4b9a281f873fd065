"""Kill workers, queues and stores under a plan, and measure what the fleet costs.

`python -m benchmarks.fleet` takes about eight minutes, `--short` one; `--cpu`, which measures only
the CPU time, three. It needs postgres, rabbitmq-server and nats-server, which it starts itself.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.fleet.costs import costs, lines, missed as missed_costs
from benchmarks.fleet.kills import Figures, Place, Scenario, run
from benchmarks.tables import head, row, told
from tests.support.nats_server import NatsServer
from tests.support.postgres_server import PostgresServer
from tests.support.rabbitmq_server import RabbitMQServer

TIME_BUDGET: Final = 1.3
"""Of the ideal time, with 20 kills of workers and one of the queue."""

WHOLE: Final = Scenario(name="whole", items=20_000, once=100, rate=150, chunk=250)
SHORT: Final = Scenario(name="short")
SCENARIOS: Final = (
    ("rabbitmq", {"name": "undisturbed"}),
    ("rabbitmq", {"name": "20-workers-and-queue", "kills": 20, "queue_kills": 1}),
    ("rabbitmq", {"name": "20-workers-and-store", "kills": 20, "store_kills": 1}),
    ("nats", {"name": "20-workers-and-queue", "kills": 20, "queue_kills": 1, "lease": 6.0}),
)
SMALL: Final = (
    ("rabbitmq", {"name": "all-in-the-last-chunk", "last": True}),
    ("nats", {"name": "all-in-the-last-chunk", "last": True, "lease": 3.0}),
    ("nats", {"name": "lease-of-half-a-chunk", "lease": 1.0, "chunk": 100}),
    ("rabbitmq", {"name": "poison", "poison": 333}),
    ("rabbitmq", {"name": "12-SIGTERM", "ends": 12}),
    ("rabbitmq", {"name": "submitted-twice", "submits": 2}),
)
COLUMNS: Final = (
    "queue", "scenario", "s", "÷ ideal", "lost", "stored twice", "sent again",
    "ONCE twice", "ONCE unlisted", "UNKNOWN", "put away", "CPU ms/query",
)  # fmt: skip


Queues = dict[str, RabbitMQServer | NatsServer]


def line(kind: str, scenario: Scenario, figures: Figures) -> str:
    """Return one row of the table."""
    cells = (
        kind,
        scenario.name,
        f"{figures.seconds:.1f}",
        f"{figures.seconds / scenario.ideal:.2f}",
        figures.lost,
        figures.twice,
        figures.repeated,
        figures.once_twice,
        figures.unlisted,
        figures.unknown,
        figures.broken,
        f"{1000 * figures.cpu / scenario.items:.2f}",
    )
    return row(cells)


@contextmanager
def servers(folder: Path) -> Iterator[tuple[PostgresServer, Queues]]:
    """Start all servers; end them, whatever happens."""
    store = PostgresServer()
    queues: Queues = {
        "rabbitmq": RabbitMQServer(folder / "rabbitmq"),
        "nats": NatsServer(folder / "nats"),
    }
    try:
        store.create()
        store.start()
        for queue in queues.values():
            queue.start()
        yield store, queues
    finally:
        for queue in queues.values():
            queue.stop()
        store.remove()


async def main(
    folder: Path, store: PostgresServer, queues: Queues, *, short: bool, cpu: bool
) -> list[str]:
    """Run all; return what was not as it should be."""
    addresses = {kind: queue.url for kind, queue in queues.items()}
    number, rounds = (2000, 1) if short else (5000, 7)
    cost = await costs(folder, await store.new_database(), addresses, number=number, rounds=rounds)
    print("", *lines(cost), "", sep="\n", flush=True)
    missed = [] if short else missed_costs(cost)
    if cpu:
        return missed
    base = SHORT if short else WHOLE
    plots = [(kind, base, plot) for kind, plot in SCENARIOS]
    plots += [(kind, SHORT, plot) for kind, plot in SMALL]
    print(head(COLUMNS))
    for kind, size, plot in plots:
        scenario = replace(size, **plot)
        place = Place(
            queue=(queues[kind].url, queues[kind]),
            store=(await store.new_database(), store),
            log=folder / "workers.log",
        )
        figures = await run(scenario, place)
        print(line(kind, scenario, figures), flush=True)
        missed += verdict(kind, scenario, figures)
    return missed


def verdict(kind: str, scenario: Scenario, figures: Figures) -> list[str]:
    """Say what was not as it should be."""
    name = f"{scenario.name} on {kind}"
    found = [] if figures.is_sound else [f"{name}: a promise was broken: {figures}"]
    is_timed = scenario.items == WHOLE.items and figures.seconds > TIME_BUDGET * scenario.ideal
    return found + ([f"{name}: {figures.seconds:.1f} s"] if is_timed else [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="2000 queries in all scenarios")
    parser.add_argument("--cpu", action="store_true", help="the CPU time of a query only")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gateway-sdk-fleet-") as name:
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
        folder = Path(name)
        with servers(folder) as (store, queues):
            problems = asyncio.run(main(folder, store, queues, short=given.short, cpu=given.cpu))
    sys.exit(told(problems))
