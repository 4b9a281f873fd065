"""The recipe for arq, by arq and a Redis: a job that comes again is not done again."""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gateway_sdk.sandbox import Sandbox
from tests.support import documents, redis_server

connections: Any = pytest.importorskip("arq.connections")
worker: Any = pytest.importorskip("arq.worker")

pytestmark = [
    redis_server.NEEDS_REDIS,
    pytest.mark.usefixtures("gateway_env"),
    pytest.mark.filterwarnings("ignore:Call to deprecated close:DeprecationWarning"),  # arq's own
]

REQUEST = {"externalCustomerId": "p-1", "customerName": "Ada"}
LATER = "Retry"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Provide the names of the file that the page says to save, and a Redis for it."""
    (block,) = [it for it in documents.every("python") if it.document.name == "arq.md"]
    (tmp_path / "onboarding.py").write_text(block.text)
    names: dict[str, Any] = {}
    with redis_server.running(tmp_path) as server:
        monkeypatch.setenv("REDIS_URL", server.url)
        exec(block.text, names)  # noqa: S102 - of this project
        yield names


@pytest_asyncio.fixture
async def pool(recipe: dict[str, Any]) -> AsyncGenerator[Any]:
    pool = await connections.create_pool(recipe["WorkerSettings"].redis_settings)
    yield pool
    await pool.aclose()


async def work(recipe: dict[str, Any], job: Any) -> str:
    """Let a worker do one job, and return what became of it."""
    once = {"burst": True, "max_burst_jobs": 1, "handle_signals": False}
    one = worker.create_worker(recipe["WorkerSettings"], **once)
    await one.async_run()
    await one.close()
    done = await job.result_info()
    return str(done.result) if done else LATER


@pytest.mark.parametrize(
    ("fault", "first", "again", "made"),
    [
        ("latency=0", "done", "CHECK: it was begun before", 1),
        ("create_customer:drop_after_read,at=1", "CHECK: ", "CHECK: it was begun before", 1),
        ("create_customer:status=403,at=1", "FIX: ", "done", 1),
        ("create_customer:too_many_requests=3600,at=1", LATER, "done", 1),
    ],
)
async def test_a_customer_that_comes_twice(
    recipe: dict[str, Any], pool: Any, gateway_sandbox: Sandbox,
    fault: str, first: str, again: str, made: int,
) -> None:  # fmt: skip
    gateway_sandbox.faults.add(fault)

    told = [
        await work(recipe, await pool.enqueue_job("create_customer", REQUEST)) for _ in range(2)
    ]

    assert told[0].startswith(first)
    assert told[1] == again
    assert sum(it.applied for it in gateway_sandbox.received) == made


async def test_a_job_whose_worker_was_killed(
    recipe: dict[str, Any], pool: Any, gateway_sandbox: Sandbox, tmp_path: Path
) -> None:
    """It comes again when its mark of being in progress has expired, and finds ours."""
    gateway_sandbox.faults.add("create_customer:latency=3600,at=1")
    job = await pool.enqueue_job("create_customer", REQUEST, _job_id="p-1")
    command = (sys.executable, "-m", "arq", "onboarding.WorkerSettings")
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stderr=DEVNULL)
    while not gateway_sandbox.received:
        assert process.returncode is None
        await asyncio.sleep(0)
    process.kill()
    await process.wait()
    await pool.delete("arq:in-progress:p-1")  # as after `job_timeout`

    assert await work(recipe, job) == "CHECK: it was begun before"
    assert len(gateway_sandbox.received) == 1


async def test_the_log_of_a_worker_has_no_personal_data(pool: Any, tmp_path: Path) -> None:
    await pool.enqueue_job("create_customer", REQUEST)
    command = (sys.executable, "-m", "arq", "--burst", "onboarding.WorkerSettings")
    process = await asyncio.create_subprocess_exec(*command, cwd=tmp_path, stderr=PIPE)

    _, log = await process.communicate()

    assert process.returncode == 0, log
    assert b"Ada" not in log
