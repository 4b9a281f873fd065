"""Compare `concurrency="adaptive"` with 10 and 50 calls at a time in runs of a few hundred items.

A fixed number is at its best from the first call, and an adaptive run has to find its own first.
"""

import argparse
import asyncio
import sys
import time
from collections import defaultdict
from statistics import median
from typing import Any, Final

from benchmarks.processes import server
from benchmarks.tables import head, row, told
from gateway_sdk import GatewaySession, bulk

GATEWAYS: Final = ((0.0, 0.0), (0.05, 0.0), (0.3, 0.0), (0.0, 0.2), (0.02, 0.2))
"""Seconds that a request takes, and the share of requests whose connection is cut."""
WAYS: Final = (10, 50, "adaptive")
RATIO: Final = 1.25
COLUMNS: Final = ("latency", "cut", "10 at a time", "50", "adaptive", "÷ better", "failed, of all")


async def measure(url: str, items: int, concurrency: Any) -> tuple[float, int]:
    """Return the seconds of one run, and how many of its items failed."""
    failed = 0
    async with GatewaySession(url, access_token="-", trust_env=False) as gateway:  # noqa: S106

        async def call(_: int) -> Any:
            return await gateway.currency.exchange_rate_series("EUR", "USD", "-", "-")

        began = time.perf_counter()
        async for result in bulk.run(call, range(items), concurrency=concurrency):
            failed += result.error is not None
        return time.perf_counter() - began, failed


def compare(latency: float, cut: float, items: int, rounds: int) -> dict[str, Any]:
    """Run each way in turn; return the medians of the seconds, and all failed items."""
    seconds, failed = defaultdict[Any, list[float]](list), 0
    with server("limited_server", "1e9", str(latency), "503", "0", "0", str(cut)) as url:
        asyncio.run(measure(url, items, 50))  # the server is warm then
        for turn in range(rounds):
            for way in (*WAYS[turn % 3 :], *WAYS[: turn % 3]):
                took, lost = asyncio.run(measure(url, items, way))
                seconds[way].append(took)
                failed += lost
    found = {str(way): median(seconds[way]) for way in WAYS}
    ratio = found["adaptive"] / min(found["10"], found["50"])
    return {"latency": latency, "cut": cut, **found, "ratio": ratio, "failed": failed}


def missed(outcome: dict[str, Any], rounds: int) -> list[str]:
    """Say which targets were missed."""
    name = f"{outcome['latency']} s, {outcome['cut']:.0%} cut"
    found = []
    if outcome["ratio"] > RATIO:
        found.append(f"{name}: {outcome['ratio']:.2f} times the better number")
    if outcome["failed"] > rounds * len(WAYS):
        found.append(f"{name}: {outcome['failed']} failed, which is more than one in each run")
    return found


def main() -> int:
    """Do what the command line says; return how many targets were missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=610)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(head(COLUMNS))
    problems = []
    for latency, cut in GATEWAYS:
        outcome = compare(latency, cut, given.items, given.rounds)
        figures = [f"{outcome[str(way)]:.3f} s" for way in WAYS]
        cells = latency, f"{cut:.0%}", *figures, f"{outcome['ratio']:.2f}", outcome["failed"]
        print(row(cells), flush=True)
        problems += missed(outcome, given.rounds)
    return told(problems)


if __name__ == "__main__":
    sys.exit(main())
