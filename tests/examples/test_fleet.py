"""Plans on engines that are not ours, in processes of their own."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from gateway_sdk.fleet import Job, Plan, PostgresStore
from gateway_sdk.sandbox import Sandbox
from tests.support.documents import ROOT, Ended, run
from tests.support.postgres_server import NEEDS_POSTGRES
from tests.support.rabbitmq_server import NEEDS_RABBITMQ, shared_rabbitmq

# Each starts several processes, which takes a while on a busy machine.
pytestmark = pytest.mark.timeout(180)
QUERIES = 8 * 7


@pytest.fixture
def database(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Point the examples at an empty database."""
    monkeypatch.setenv("FLEET_DATABASE", dsn)
    monkeypatch.setenv("FLEET_LEASE", "3")
    return dsn


async def call(module: str, *arguments: str) -> Ended:
    return await run(sys.executable, "-m", module, *arguments, folder=ROOT)


@NEEDS_POSTGRES
async def test_dask_runs_what_the_store_lacks(
    gateway_env: dict[str, str], gateway_sandbox: Sandbox, database: str, tmp_path: Path
) -> None:
    """A second run asks the gateway for nothing."""
    place = tmp_path / "rates.parquet"

    first = await call("examples.fleet_dask", str(place))
    asked = len(gateway_sandbox.received)
    second = await call("examples.fleet_dask", str(place))

    assert first.out == second.out == f"{QUERIES} series in {place}\n", first.err
    assert asked == len(gateway_sandbox.received) == QUERIES
    assert set(parquet.read_table(place)["state"].to_pylist()) == {"done"}


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Point the examples at a RabbitMQ, in which no other test uses their queue."""
    monkeypatch.setenv("FLEET_BROKER", shared_rabbitmq(request))


PROCRASTINATE = ("examples.fleet_procrastinate", "worker")
TASKIQ = ("taskiq", "worker", "examples.fleet_taskiq:broker", "--max-async-tasks", "2")


@asynccontextmanager
async def worker(*command: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a worker, which ends when it is asked to."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, cwd=ROOT, stderr=PIPE, start_new_session=True
    )
    assert process.stderr
    log = asyncio.create_task(process.stderr.read())
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await log


async def until_complete(plan: Plan) -> None:
    """Look at the store until nothing is missing; the time-out of the test is the limit."""
    while not (await plan.status()).is_complete:  # noqa: ASYNC110 - other processes work
        await asyncio.sleep(0.2)


@NEEDS_POSTGRES
@pytest.mark.gateway_fault("exchange_rate_series", "latency", seconds=60, at=1)
async def test_procrastinate_revives_what_a_dead_worker_left(
    gateway_env: dict[str, str], gateway_sandbox: Sandbox, database: str
) -> None:
    """A worker is killed in the middle of its first chunks; another one ends the plan."""
    procrastinate = (sys.executable, "-m", "procrastinate", "--app")
    applied = await run(
        *procrastinate, "examples.fleet_procrastinate.app", "schema", "--apply", folder=ROOT
    )
    assert applied.status == 0, applied.err
    submitted = await call("examples.fleet_procrastinate", "submit")
    assert submitted.out == "6 chunks submitted\n", submitted.err
    store = PostgresStore(database)
    plan = await Job("rates-2026-01", operation="exchange_rate_series", store=store).load()

    async with worker(*PROCRASTINATE) as first:
        while not gateway_sandbox.received:  # noqa: ASYNC110 - another process works
            await asyncio.sleep(0.05)
        os.kill(first.pid, signal.SIGKILL)
        await first.wait()
    assert not (await plan.status()).is_complete
    async with worker(*PROCRASTINATE):
        await until_complete(plan)

    assert (await plan.status()).done == QUERIES
    await store.aclose()


@NEEDS_POSTGRES
@NEEDS_RABBITMQ
async def test_taskiq_does_a_plan_once(
    gateway_env: dict[str, str],
    gateway_sandbox: Sandbox,
    database: str,
    queue: None,
    tmp_path: Path,
) -> None:
    """Two workers share it; the same command again asks the gateway for nothing."""
    place = tmp_path / "rates.parquet"

    async with worker(*TASKIQ, "--workers", "2"):
        first = await call("examples.fleet_taskiq", str(place))
    second = await call("examples.fleet_taskiq", str(place))

    assert first.out.endswith(f"{QUERIES} series in {place}\n"), first.err
    assert second.out == f"{QUERIES} series in {place}\n", second.err
    assert len(gateway_sandbox.received) == QUERIES
    assert set(parquet.read_table(place)["state"].to_pylist()) == {"done"}
