"""Programs of the examples, and the tests of the service, in processes of their own."""

import asyncio
import re
import sys
from asyncio.subprocess import DEVNULL
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import ROOT, run
from tests.support.ports import free_port


async def test_the_bulk_fetch_prints_one_line_per_series(
    gateway_env: dict[str, str], tmp_path: Path
) -> None:
    program = str(ROOT / "examples" / "bulk_fetch.py")

    for _ in range(2):
        ended = await run(sys.executable, "-W", "error", program, folder=tmp_path)

        assert ended.status == 0, ended.err
        *lines, last = ended.out.splitlines()
        assert len(lines) == 29
        assert any(line.startswith("USD: 63 days; ") for line in lines)
        assert last == "1827 rates in quarter.csv; 0 of 29 currencies failed"


async def test_the_demo_prints_spans_and_metrics() -> None:
    ended = await run(sys.executable, "-W", "error", "examples/tracing.py", folder=ROOT)

    assert ended.status == 0, ended.err
    lines = ended.out.splitlines()
    spans = [line for line in lines if line.startswith("span ")]
    assert len([line for line in spans if "http.request.method=" in line]) == 6
    assert [line for line in spans if "list_countries: " in line and "[gateway.retry]" in line]
    assert [line for line in spans if "/wallet/1.0.0/{walletId}/orders/{orderId}' " in line]
    (run_of_all,) = [line for line in spans if " bulk.run: " in line]
    number = re.findall(r"> (\w+) bulk\.run", run_of_all)[0]
    assert len([line for line in spans if f" {number} > " in line]) == 3
    metrics = {line.split()[1].rstrip(":") for line in lines if line.startswith("metric ")}
    assert metrics == {"http.client.request.duration", "gateway.client.call.duration"}
    assert "no-such" not in ended.out


async def test_the_tests_of_the_service_pass_with_the_plugins_that_they_name() -> None:
    arguments = "-m pytest -p no:cacheprovider -p no:timeout examples/service"
    ended = await run(sys.executable, *arguments.split(), folder=ROOT)

    assert ended.status == 0, ended.out
    assert "12 passed" in ended.out


@pytest.mark.full
async def test_the_services_of_the_cluster_run_as_far_as_they_can_without_docker(
    gateway_env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their commands on one machine, at a port of their own."""
    folder = ROOT / "examples" / "cluster"
    yaml: Any = import_module("yaml")  # which comes with Dask
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    build = services["worker"]["build"]
    assert (folder / build["context"] / build["dockerfile"]).samefile(folder / "Dockerfile")
    assert {"GATEWAY_BASE_URL", "GATEWAY_ACCESS_TOKEN"} < services["program"]["environment"].keys()
    address, program = f"127.0.0.1:{free_port()}", str(folder / "rates.py")

    def command(service: str) -> list[str]:
        words = [word.replace("scheduler:8786", address) for word in services[service]["command"]]
        words = [word.replace("8786", address.partition(":")[2]) for word in words]
        return [str(Path(sys.executable).parent / words[0]), *words[1:]]

    started = [
        await asyncio.create_subprocess_exec(*command(service), cwd=tmp_path, stderr=DEVNULL)
        for service in ("scheduler", "worker")
    ]
    try:
        monkeypatch.setenv("DASK_SCHEDULER", f"tcp://{address}")
        ended = await run(sys.executable, program, folder=tmp_path)
    finally:
        for process in reversed(started):
            process.terminate()
            await process.wait()

    assert re.fullmatch(r"\d+ rates in cluster\.csv\n", ended.out), ended.err
