"""The commands of a fleet with a real queue, each in a process of its own, as users run them."""

import asyncio
import json
import os
import subprocess
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from gateway_sdk.fleet import Job, PostgresStore
from gateway_sdk.sandbox import Sandbox
from tests.fleet.workers import new_name
from tests.support.postgres_server import NEEDS_POSTGRES
from tests.support.rabbitmq_server import NEEDS_RABBITMQ

# Each starts several processes, which takes a while on a busy machine.
pytestmark = [NEEDS_POSTGRES, NEEDS_RABBITMQ, pytest.mark.timeout(180)]

GATEWAY = (sys.executable, "-m", "gateway_sdk.cli", "bulk")

MODULE = """
import os
from gateway_sdk import fleet
from taskiq_aio_pika import AioPikaBroker
from taskiq_aio_pika.queue import Queue

name = os.environ["FLEET_QUEUE"]
broker = AioPikaBroker(
    os.environ["FLEET_URL"],
    qos=2,
    task_queues=[Queue(name=name, arguments={"x-delivery-limit": 20})],
    dead_letter_queue=Queue(name=f"{name}.dead"),
)
store = fleet.PostgresStore(os.environ["FLEET_DATABASE"])
rates = fleet.Job("rates", operation="exchange_rate_series", store=store)
fleet.on_taskiq(broker, rates)
"""


async def test_a_plan_from_the_shell_through_rabbitmq(
    gateway_env: dict[str, str],
    gateway_sandbox: Sandbox,
    rabbitmq_url: str,
    dsn: str,
    tmp_path: Path,
) -> None:
    """Planned, submitted, run by the worker that the command starts, which ends at SIGTERM."""
    (tmp_path / "jobs.py").write_text(MODULE)
    query = {"base": "EUR", "start_date": "2026-01-01", "end_date": "2026-01-31"}
    lines = (json.dumps({**query, "symbols": symbol}) for symbol in ("USD", "GBP", "JPY"))
    (tmp_path / "queries.jsonl").write_text("\n".join(lines))
    variables = {"FLEET_URL": rabbitmq_url, "FLEET_QUEUE": new_name(), "FLEET_DATABASE": dsn}
    environment = os.environ | variables

    async def call(*arguments: str) -> str:
        process = await asyncio.to_thread(
            subprocess.run, [*GATEWAY, *arguments], cwd=tmp_path, env=environment,
            capture_output=True, check=True, text=True,
        )  # fmt: skip
        return process.stdout + process.stderr

    assert await call("plan", "jobs:rates", "queries.jsonl", "--chunk", "1")
    assert await call("submit", "jobs:rates") == "3 chunks submitted\n"
    job = Job("rates", operation="exchange_rate_series", store=PostgresStore(dsn))
    plan = await job.load()
    worker = await asyncio.create_subprocess_exec(
        *GATEWAY, "worker", "jobs:rates", cwd=tmp_path, env=environment, stderr=PIPE
    )
    assert worker.stderr
    log = asyncio.create_task(worker.stderr.read())
    try:
        while not (await plan.status()).is_complete:
            assert worker.returncode is None
            await asyncio.sleep(0.1)
    finally:
        if worker.returncode is None:
            worker.terminate()
        await worker.wait()
        shown = (await log).decode()

    assert (await plan.status()).done == 3
    await job.aclose()
    assert len(gateway_sandbox.received) == 3
    assert worker.returncode == 0, shown
