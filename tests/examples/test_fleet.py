"""Plans of the examples, on the fleet's queue and on others, in processes of their own."""

import asyncio
import shlex
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from gateway_sdk.fleet import Job
from gateway_sdk.sandbox import Sandbox
from tests.support.documents import ROOT, Ended, run
from tests.support.postgres_server import NEEDS_POSTGRES, point_libpq_at
from tests.support.redis_server import NEEDS_REDIS, RedisServer

# Each starts several processes, which takes a while on a busy machine.
pytestmark = [NEEDS_POSTGRES, pytest.mark.timeout(180)]
QUERIES = 8 * 7
JOB = "examples.fleet_rates:rates"
GATEWAY = ("-c", "from gateway_sdk.cli import main; main()")


@pytest.fixture
def job(dsn: str, monkeypatch: pytest.MonkeyPatch, gateway_env: dict[str, str]) -> Job:
    point_libpq_at(dsn, monkeypatch)
    return Job("rates", operation="exchange_rate_series")


async def call(*command: str) -> Ended:
    return await run(sys.executable, *command, folder=ROOT)


@asynccontextmanager
async def worker(*command: str) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT, stdout=DEVNULL, stderr=DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def until_complete(job: Job) -> None:
    while not (await job.status("rates-2026-01")).is_complete:  # noqa: ASYNC110 - other processes
        await asyncio.sleep(0.1)


async def test_the_queue_of_the_fleet(job: Job, gateway_sandbox: Sandbox, tmp_path: Path) -> None:
    assert (await call(*GATEWAY, "fleet", "init", JOB)).status == 0
    assert (await call("-m", "examples.fleet_rates")).err == ""
    async with worker(*GATEWAY, "fleet", "worker", JOB):
        await until_complete(job)
    out = tmp_path / "rates.csv"
    command = (*GATEWAY, "fleet", "collect", JOB, "rates-2026-01", str(out))
    assert (await call(*command)).status == 0
    assert len(gateway_sandbox.received) == QUERIES


@pytest.mark.full
async def test_dask_runs_what_is_missing(
    job: Job, gateway_sandbox: Sandbox, tmp_path: Path
) -> None:
    place = tmp_path / "rates.csv"

    first = await call("-m", "examples.fleet_dask", str(place))
    asked = len(gateway_sandbox.received)
    second = await call("-m", "examples.fleet_dask", str(place))

    assert first.out == second.out, first.err
    assert first.out.endswith(f" rates in {place}\n"), first.err
    assert asked == len(gateway_sandbox.received) == QUERIES


@pytest.mark.full
@NEEDS_REDIS
async def test_celery_delivers_the_chunks(
    job: Job, gateway_sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = RedisServer(tmp_path)
    try:
        server.start()
        monkeypatch.setenv("CELERY_BROKER_URL", server.url.replace("unix:", "redis+socket:"))
        assert (await call("-m", "examples.fleet_celery")).err == ""
        async with worker(
            "-m", "celery", "-A", "examples.fleet_celery", "worker", "--concurrency", "2"
        ):
            await until_complete(job)
    finally:
        server.kill()

    assert len(gateway_sandbox.received) == QUERIES


async def test_the_image_and_the_services_name_what_there_is(
    job: Job, gateway_sandbox: Sandbox, tmp_path: Path
) -> None:
    """As far as they can be tried without Docker: their commands, files and variables."""
    folder = ROOT / "examples" / "fleet"
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    lines = (folder / "Dockerfile").read_text().replace("\\\n", "").splitlines()
    copied = [line.split()[1:] for line in lines if line.startswith("COPY")]
    assert copied == [[".", "gateway-sdk"], ["examples/fleet_rates.py", "jobs.py"]]
    (tmp_path / "jobs.py").write_text((ROOT / copied[1][0]).read_text())
    build = services["worker"]["build"]
    assert (folder / build["context"] / build["dockerfile"]).samefile(folder / "Dockerfile")
    assert {"PGHOST", "PGUSER", "PGDATABASE", "PGPASSWORD", "GATEWAY_BASE_URL"} < set(
        services["worker"]["environment"]
    )

    async def gateway(words: list[str]) -> int:
        assert words[0] == "gateway"
        command = (sys.executable, *GATEWAY, *words[1:])
        return (await run(*command, folder=tmp_path)).status

    (check,) = [line.partition("CMD ")[2] for line in lines if line.startswith("HEALTHCHECK")]
    assert await gateway(services["tables"]["command"]) == 0
    assert await gateway(yaml.safe_load(check)) == 1  # nothing runs
    assert shlex.split("gateway fleet worker jobs:rates") == yaml.safe_load(
        lines[-1].removeprefix("CMD ")
    )
