"""Workers, queues and stores that are killed: the short form of `python -m benchmarks.fleet`."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.fleet.jobs import items, make_job
from benchmarks.fleet.kills import (
    Figures,
    Place,
    Scenario,
    environment,
    gateway_variables,
    run,
    statistics,
    submit,
)
from benchmarks.processes import ROOT, server
from tests.fleet.workers import new_name
from tests.support.nats_server import NEEDS_NATS, NatsServer
from tests.support.postgres_server import NEEDS_POSTGRES, PostgresServer
from tests.support.rabbitmq_server import NEEDS_RABBITMQ, RabbitMQServer

# Each starts several processes, again and again, which takes a while on a busy machine.
pytestmark = [pytest.mark.full, NEEDS_POSTGRES, pytest.mark.timeout(300)]

RABBITMQ = pytest.param("own_rabbitmq", marks=NEEDS_RABBITMQ)
NATS = pytest.param("nats_server", marks=NEEDS_NATS)


@pytest.fixture(scope="module")
def own_rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQServer]:
    """Provide a server that no other test uses, to be killed."""
    server = RabbitMQServer(tmp_path_factory.mktemp("rabbitmq"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def place(
    request: pytest.FixtureRequest, postgres: PostgresServer, dsn: str, tmp_path: Path
) -> Place:
    """Provide a queue of the kind that the test names, and an empty database."""
    queue: RabbitMQServer | NatsServer = request.getfixturevalue(request.param)
    return Place(queue=(queue.url, queue), store=(dsn, postgres), log=tmp_path / "workers.log")


async def figures_of(place: Place, **plot: Any) -> Figures:
    """Run 2000 items, of which 20 must not be made twice; nothing is lost, or made twice."""
    figures = await run(Scenario(name=new_name(), **plot), place)
    assert figures.is_sound, figures
    return figures


@pytest.mark.parametrize("place", [RABBITMQ, NATS], indirect=True)
async def test_everything_is_killed_and_nothing_is_lost(place: Place) -> None:
    """Five workers, the queue, and the store in the middle of chunks."""
    figures = await figures_of(place, kills=5, queue_kills=1, store_kills=1, lease=5.0)

    assert sorted(set(figures.deeds) - {"ended by itself"}) == ["queue", "store", "worker"]
    assert figures.done + figures.unknown == 2000


@pytest.mark.parametrize("place", [RABBITMQ, NATS], indirect=True)
async def test_the_last_chunk_comes_back_too(place: Place) -> None:
    """Its worker is killed when the queue is empty, and no other message will come."""
    figures = await figures_of(place, items=500, last=True, lease=2.0)

    assert "last worker" in figures.deeds
    assert figures.done + figures.unknown == 500


@pytest.mark.parametrize("place", [RABBITMQ], indirect=True)
async def test_an_item_that_kills_its_worker_is_put_away(place: Place) -> None:
    """The status says so, and everything else is done."""
    figures = await figures_of(place, items=500, poison=33)

    assert figures.broken == 1
    assert 1 <= figures.lost <= 50


@pytest.mark.parametrize("place", [RABBITMQ, NATS], indirect=True)
async def test_workers_that_are_asked_to_end_lose_nothing(place: Place) -> None:
    """Nothing is repeated and nothing is unknown, though four workers end in the middle."""
    figures = await figures_of(place, items=1000, ends=4)

    assert (figures.repeated, figures.unknown) == (0, 0)


@pytest.mark.parametrize("place", [RABBITMQ], indirect=True)
async def test_the_worker_of_taskiq_ends_when_it_is_asked_to(place: Place) -> None:
    """SIGTERM as a container gets it: each request that was sent has its result in the store."""
    name = new_name()
    with (
        server("fleet.gateway") as gateway,
        environment(
            FLEET_JOB=name,
            FLEET_BROKER=place.queue[0],
            FLEET_STORE=place.store[0],
            FLEET_RATE="50",
            FLEET_STARTS="9",
            **gateway_variables(gateway),
        ),
    ):
        async with make_job() as job:
            plan = await job.plan(items(1000, 100), chunk=200)
            await submit(plan, job)
            with place.log.open("wb") as log:
                worker = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "taskiq", "worker", "benchmarks.fleet.worker:broker",
                    "--workers", "1", "--max-async-tasks", "2",
                    cwd=ROOT, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
            try:
                while not (await plan.status()).done:
                    assert worker.returncode is None, place.log.read_text()
                worker.terminate()
                await asyncio.wait_for(worker.wait(), 60)
            finally:
                if worker.returncode is None:
                    os.killpg(worker.pid, signal.SIGKILL)
                    await worker.wait()
            status = await plan.status()
            told = await asyncio.to_thread(statistics, gateway)

    assert 0 < status.done < 1000
    assert status.done == told["requests"]
    assert (status.begun, status.unknown, status.running) == (0, 0, 0)
