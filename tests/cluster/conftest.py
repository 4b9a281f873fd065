"""A gateway that counts, a scheduler and workers: each in a process of its own."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from benchmarks.processes import server
from tests.support.ports import free_port
from tests.support.programs import Program

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Filter what Dask itself warns of when a scheduler or a worker goes away."""
    for item in items:
        if item.path.parent == FOLDER:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:distributed"))


class Gateway:
    """The gateway that counts."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.environment = {
            "GATEWAY_BASE_URL": address,
            "GATEWAY_TENANT_ID": "acme",
            "GATEWAY_ACCESS_TOKEN": "the-secret-token",
        }

    def counts(self) -> dict[str, Any]:
        with urlopen(f"{self._address}/statistics") as reply:  # noqa: S310 - ours
            found: dict[str, Any] = json.load(reply)
        return found

    async def until(self, requests: int, run: "asyncio.Task[Any] | None" = None) -> None:
        while self.counts()["requests"] < requests:
            assert run is None or not run.done()
            await asyncio.sleep(0.02)

    def answer(self, status: int) -> None:
        urlopen(f"{self._address}/mode/{status}").close()  # noqa: S310 - ours


class Dask(Program):
    """A scheduler, or a worker: each process of pytest starts three, with seconds of CPU time."""

    patience = 120.0

    def __init__(self, log: Path, what: str, *arguments: str, **environment: str) -> None:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments]
        path = os.pathsep.join(filter(None, (environment.pop("PYTHONPATH", ""), str(ROOT))))
        found = {**os.environ, **environment, "PYTHONPATH": path}
        options = ("--no-dashboard", "--host", "127.0.0.1")
        super().__init__([*command, *options], log, env=found, cwd=log.parent)

    def answers(self) -> bool:
        log = self._log.read_text(errors="replace")
        return "Scheduler at:" in log or "Registered to:" in log

    def signal(self, number: int) -> None:
        assert self._process
        self._process.send_signal(number)

    def end(self) -> None:
        """End it so that the lines that it has covered are kept."""
        if self._process and self._process.poll() is None:
            self.signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
        self.kill()


class Cluster:
    """A scheduler and its workers."""

    def __init__(self, folder: Path, scheme: str = "tcp", **environment: str) -> None:
        port = str(free_port())
        self.address, arguments = (
            f"{scheme}://127.0.0.1:{port}",
            ("--port", port, "--protocol", scheme),
        )
        self.scheduler = Dask(folder / "scheduler.log", "scheduler", *arguments, **environment)
        self._folder, self._environment = folder, environment
        self.workers: list[Dask] = []

    def add_workers(self, number: int = 1, **environment: str) -> list[Dask]:
        """Start workers; all at once, because each takes a second of CPU time."""
        arguments = (self.address, "--no-nanny", "--nthreads", "4", "--memory-limit", "0")
        merged, first = {**self._environment, **environment}, len(self.workers)
        for place in range(first, first + number):
            log = self._folder / f"worker{place}.log"
            self.workers.append(Dask(log, "worker", *arguments, **merged))
        with ThreadPoolExecutor(number) as threads:
            list(threads.map(Dask.start, self.workers[first:]))
        return self.workers[first:]

    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted(self._folder.glob("*.log")))

    def close(self) -> None:
        for program in (*self.workers, self.scheduler):
            program.end()


@pytest.fixture(scope="session")
def one_gateway() -> Iterator[Gateway]:
    with server("counting_gateway", "0.005") as address:
        yield Gateway(address)


@pytest.fixture
def gateway(one_gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    for name, value in one_gateway.environment.items():
        monkeypatch.setenv(name, value)
    return one_gateway


@pytest.fixture(scope="session")
def shared(one_gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster for all tests that leave it as it was."""
    folder = tmp_path_factory.mktemp("cluster")
    with closing(Cluster(folder, **one_gateway.environment)) as cluster:
        cluster.scheduler.start()
        cluster.add_workers(2)
        yield cluster


@pytest.fixture
def own(gateway: Gateway, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster without workers, whose processes a test may end; the parameter is a setting."""
    settings = getattr(request, "param", {})
    with closing(Cluster(tmp_path, **gateway.environment, **settings)) as cluster:
        cluster.scheduler.start()
        yield cluster
