"""One rate limit for several processes, with retries, as counted at the gateway.

In the middle Redis is killed and started again. The table says how many requests came in any
second at most; the limit must never be exceeded, and nothing may come while Redis is away.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Final, TextIO, cast

import httpx

from benchmarks.processes import ROOT, server
from benchmarks.tables import told
from gateway_sdk import GatewaySession
from gateway_sdk.errors import GatewayError
from gateway_sdk.fleet import SharedRateLimit
from tests.support.redis_server import RedisServer

CALLERS: Final = 25
TOKEN: Final = "benchmark"  # noqa: S105 - of no gateway
AWAY: Final = 2.0
"""Seconds without Redis."""
SETTLED: Final = 0.1
"""Seconds in which requests that had their permits still arrive."""


async def call(base_url: str, redis: str, limit: int, seconds: float) -> None:
    """Make calls as fast as the limit allows, and print the CPU time of a call in ms."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    end = time.monotonic() + seconds
    shared = SharedRateLimit(limit, redis)
    made = 0

    async def caller(gateway: GatewaySession) -> None:
        nonlocal made
        while time.monotonic() < end:
            try:
                await gateway.country_data.list_countries()
            except GatewayError:
                continue  # after its retries; the budget of the session may be used up
            finally:
                made += 1

    async with GatewaySession(base_url, access_token=TOKEN, rate_limit=shared) as gateway:
        began = time.process_time()
        await asyncio.gather(*(caller(gateway) for _ in range(CALLERS)))
    print(1000 * (time.process_time() - began) / made)


def most_in(seconds: float, times: list[float]) -> int:
    """Return how many of these times lie in any stretch of so many seconds, at most."""
    window: deque[float] = deque()
    most = 0
    for moment in sorted(times):
        window.append(moment)
        while window[0] <= moment - seconds:
            window.popleft()
        most = max(most, len(window))
    return most


def run(limit: int, processes: int, seconds: float) -> int:
    """Run the processes, and print what the gateway counted; return the budgets missed."""
    with tempfile.TemporaryDirectory() as folder, server("counting_server") as base_url:
        redis = RedisServer(Path(folder))
        redis.start()
        command = [sys.executable, "-m", "benchmarks.shared_limit", "--worker", base_url, redis.url]
        command += ["--limit", str(limit), "--seconds", str(seconds)]
        workers = [
            subprocess.Popen(  # noqa: S603 - what is run is ours
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
            for _ in range(processes)
        ]
        try:
            for worker in workers:
                cast("TextIO", worker.stdout).readline()
            for worker in workers:
                print("go", file=worker.stdin, flush=True)
            time.sleep(seconds / 2)
            redis.kill()
            away = time.time()
            time.sleep(AWAY)
            redis.start()
            back = time.time()
            costs = [float(worker.communicate()[0]) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
            redis.kill()
        came: list[float] = json.loads(httpx.get(base_url + "/statistics").content)
    return report(limit, came, away, back, costs)


def report(limit: int, came: list[float], away: float, back: float, costs: list[float]) -> int:
    """Print a table; return how many budgets were missed."""
    most, steady = most_in(1.0, came), [moment for moment in came if moment < away]
    meanwhile = sum(away + SETTLED < moment < back for moment in came)
    figures = {
        "limit in any second": limit,
        "requests, retries included": len(came),
        "per second before the outage": f"{len(steady) / (away - min(came)):.1f}",
        "most in any second": most,
        "most in any 100 ms": most_in(0.1, came),
        f"while Redis was away for {back - away:.1f} s": meanwhile,
        "first after it was back, s": f"{min(m for m in came if m > back) - back:.2f}",
        "CPU time per call, ms": f"{max(costs):.2f}",
    }
    print(*(f"{name:34}{figure}" for name, figure in figures.items()), sep="\n")
    problems = [f"{most} in a second"] if most > limit else []
    return told(problems + ([f"{meanwhile} without Redis"] if meanwhile else []))


def main() -> int:
    """Read the arguments, and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", nargs=2, metavar=("URL", "REDIS"))
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    if given.worker:
        base_url, redis = given.worker
        asyncio.run(call(base_url, redis, given.limit, given.seconds))
        return 0
    return run(given.limit, given.processes, given.seconds)


if __name__ == "__main__":
    sys.exit(main())
