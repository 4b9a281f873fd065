"""Bulk runs on a Dask cluster: what an item costs, and what kills do to a run.

`python -m benchmarks.cluster` compares one program with workers of this machine;
`python -m benchmarks.cluster kills [ITEMS] [RATE]` kills workers, the scheduler and the program.
"""

import asyncio
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.request import urlopen

from benchmarks.processes import ROOT, server
from benchmarks.tables import told
from gateway_sdk import GatewaySession, RateLimit, bulk, cluster

WORKERS: Final = 4
STOP: Final = 15.0
"""Seconds for which a worker is stopped."""

CURRENCIES: Final = ("USD", "GBP", "JPY", "CHF", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF")
HEAVY: Final = 60_000
"""Rounds of PBKDF2, about 30 ms of CPU time, which stand for the work of a function."""


async def small(gateway: GatewaySession, number: int) -> Any:
    """Make a call, whose reply has 1 kB."""
    base, symbol = divmod(number, len(CURRENCIES))
    call = gateway.currency.exchange_rate_series
    return await call(f"B{base:05}", CURRENCIES[symbol], "2026-01-01", "2026-01-31")


async def heavy(gateway: GatewaySession, number: int) -> Any:
    """Make such a call, and work on its reply."""
    reply = await small(gateway, number)
    text = json.dumps(reply).encode()
    return await asyncio.to_thread(
        lambda: hashlib.pbkdf2_hmac("sha256", text, b"salt", HEAVY).hex()
    )


async def _spent(work: Any, gateway: GatewaySession, number: int) -> tuple[Any, int, float]:
    """Do the work; return also the process and its seconds of CPU time."""
    return await work(gateway, number), os.getpid(), time.process_time()


async def costs() -> None:
    """Print seconds, and CPU time per item, of one program and of workers on this machine."""
    print("work, items, runs on: seconds (to the first result), CPU ms an item here, in workers")
    for work, number in ((small, 5000), (heavy, 200)):
        for place in ("one program", "2 workers"):
            before, began, first = time.process_time(), time.perf_counter(), 0.0
            workers = dict[int, float]()
            if place == "one program":
                async with GatewaySession.from_env() as gateway:
                    one = bulk.run(partial(work, gateway), range(number), concurrency=50)
                    async for _ in one:
                        first = first or time.perf_counter() - began
            else:
                async for result in cluster.run(partial(_spent, work), range(number), workers=2):
                    first = first or time.perf_counter() - began
                    _, worker, spent = result.value
                    workers[worker] = max(spent, workers.get(worker, 0.0))
            seconds = time.perf_counter() - began
            here = 1e3 * (time.process_time() - before) / number
            there = 1e3 * sum(workers.values()) / number
            name = f"{work.__name__}, {number}, {place}"
            print(f"{name}: {seconds:.1f} s ({first:.1f}), {here:.2f} ms, {there:.2f} ms")


async def program(address: str, journal: str, number: int, rate: int) -> None:
    """Be the program of a run, and print what came of it."""
    before, counts = time.process_time(), Counter[str]()

    def tell(progress: bulk.Progress) -> None:
        counts["told of an outage"] += progress.outage is not None

    results = cluster.run(
        small, range(number), address=address, journal=journal, job="kills",
        rate_limit=RateLimit(rate), on_progress=tell, at_once=12, chunk=50,
    )  # fmt: skip
    async for result in results:
        counts["failed" if result.error else "done"] += 1
        counts["from the journal"] += result.from_journal
    counts["CPU µs an item"] = round(1e6 * (time.process_time() - before) / number)
    print(dict(counts), flush=True)


class Trial:
    """A scheduler, workers and a program, which are started again when they have ended."""

    def __init__(self, folder: Path, gateway: str, number: int, rate: int) -> None:
        port = str(20_000 + os.getpid() % 10_000)
        self._address, self._log = f"tcp://127.0.0.1:{port}", (folder / "log").open("w")
        variables = {"GATEWAY_BASE_URL": gateway, "GATEWAY_ACCESS_TOKEN": "token"}
        self._environment = os.environ | variables | {"PYTHONPATH": str(ROOT)}
        plain = ("--host", "127.0.0.1", "--no-dashboard")
        dask = "distributed.cli.dask_"
        worker = (f"{dask}worker", self._address, "--no-nanny", "--nthreads", "4", *plain)
        run = ("benchmarks.cluster", self._address, str(folder / "run.db"), str(number), str(rate))
        self._commands = {
            "scheduler": (f"{dask}scheduler", "--port", port, *plain),
            **{f"worker {place}": worker for place in range(WORKERS)},
            "program": run,
        }
        self.processes = {name: self._start(name) for name in self._commands if name != "program"}
        with import_module("distributed").Client(self._address, timeout=60) as client:
            client.wait_for_workers(WORKERS, timeout=60)
        self.processes["program"] = self._start("program")  # a cluster is there before its runs

    def _start(self, name: str) -> "subprocess.Popen[bytes]":
        command = (sys.executable, "-m", *self._commands[name])
        out = None if name == "program" else self._log
        return subprocess.Popen(  # noqa: S603 - ours
            command, env=self._environment, cwd=ROOT, stdout=out, stderr=self._log
        )

    def start_what_has_ended(self) -> bool:
        """Start again what was killed; tell whether the program has ended by itself."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                if name == "program" and process.returncode >= 0:
                    return True
                self.processes[name] = self._start(name)
        return False

    def do(self, what: str, place: int) -> None:
        """Kill something, or stop a worker for a while, the next one each time."""
        process = self.processes[what if what in self.processes else f"worker {place % WORKERS}"]
        process.send_signal(signal.SIGSTOP if what == "stop" else signal.SIGKILL)
        if what == "stop":
            threading.Timer(STOP, process.send_signal, [signal.SIGCONT]).start()

    def close(self) -> None:
        """End everything."""
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._log.close()


def kills(number: int = 20_000, rate: int = 600) -> int:
    """Run with each kind of trouble, and print what was lost and how long it took.

    Returns how many targets were missed: nothing is lost, and the time is a multiple of the ideal.
    """
    problems = []
    trials: list[tuple[str, dict[str, int], float]] = [
        ("no trouble", {}, 1.5),
        ("20 kills of workers", {"worker": 20}, 1.5),
        ("2 kills each of the scheduler and the program", {"scheduler": 2, "program": 2}, 2.5),
        (f"3 stops of workers for {STOP:.0f} s", {"stop": 3}, 2.5),
    ]
    for name, plan, most in trials:
        with (
            tempfile.TemporaryDirectory() as folder,
            server("counting_gateway") as gateway,
            closing(Trial(Path(folder), gateway, number, rate)) as trial,
        ):
            seconds = _watch(trial, gateway, plan, number)
            counted = _statistics(gateway)
            database = sqlite3.connect(Path(folder) / "run.db")
            states = dict(database.execute("select state, count(*) from items group by state"))
            again = counted["requests"] - counted["queries"]
            ideal = number / rate
            print(f"{name}: {seconds:.0f} s, ideal {ideal:.0f}; {states}; executed again: {again}")
            problems += missed(name, states, number, seconds / ideal, most)
    return told(problems)


def missed(name: str, states: dict[str, int], number: int, ratio: float, most: float) -> list[str]:
    """Say which targets a trial missed."""
    found = [] if states == {"done": number} else [f"{name}: {states} of {number} items"]
    return found + ([f"{name}: {ratio:.2f} times the ideal"] if ratio > most else [])


def _watch(trial: Trial, gateway: str, plan: dict[str, int], number: int) -> float:
    events = sorted(
        (number * (place + 0.5) / count, what, place)
        for what, count in plan.items()
        for place in range(count)
    )
    began = time.monotonic()
    while not trial.start_what_has_ended():
        while events and events[0][0] < _statistics(gateway)["requests"]:
            trial.do(*events.pop(0)[1:])
        time.sleep(0.1)
    return time.monotonic() - began


def _statistics(gateway: str) -> dict[str, Any]:
    with urlopen(f"{gateway}/statistics") as reply:  # noqa: S310 - ours
        found: dict[str, Any] = json.load(reply)
    return found


def _main(words: list[str]) -> int:
    if words[:1] == ["kills"]:
        return kills(*map(int, words[1:]))
    if words:
        address, journal, number, rate = words
        asyncio.run(program(address, journal, int(number), int(rate)))
    else:
        with server("counting_gateway", "0.005") as gateway:
            os.environ |= {"GATEWAY_BASE_URL": gateway, "GATEWAY_ACCESS_TOKEN": "token"}
            asyncio.run(costs())
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
