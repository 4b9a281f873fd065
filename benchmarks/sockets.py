"""The table of `benchmarks.simulated` over real sockets: beside the best fixed concurrency."""

import argparse
import asyncio
import itertools
import sys
import time
from collections import Counter
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.processes import server
from benchmarks.simulated import SECONDS, TABLE
from gateway_sdk import Attempt, CallInfo, GatewaySession, Observer, RateLimitedError, bulk

FACTOR: Final = 2.0
"""By which latencies are longer than in the simulation, so that the client is not the limit."""

FIXED: Final = {
    "no limit, 1 % noise": (100,),
    "limit 50, then 25": (25, 50),
    "100 in any second, Retry-After: 1": (18, 20),
    "100 per second, saved up, Retry-After: 1": (18, 20),
    "a pool of 20 that thrashes": (20,),
}
"""Concurrencies, the best of which is compared with; 50 where none are named."""

COLUMNS: Final = ("gateway", "calls/s", "÷ best fixed", "wanted", "refused", "at most", "lost", "")


@dataclass
class Seen(Observer):
    """Counts what the gateway answered, and what of it counts.

    Attributes:
        since: Seconds after the beginning from which refusals count.
        lost: Items that failed for a 429.
    """

    since: float
    began: float = field(default_factory=time.perf_counter)
    statuses: Counter[int | None] = field(default_factory=Counter)
    counted: Counter[int | None] = field(default_factory=Counter)
    lost: int = 0

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        """Count an attempt."""
        del call
        self.statuses[attempt.status] += 1
        if time.perf_counter() - self.began >= self.since:
            self.counted[attempt.status] += 1

    @property
    def refused(self) -> float:
        """The share of refusals among those that count."""
        fine = self.counted[200]
        return 1 - fine / max(1, self.counted.total())


async def _measure(
    url: str, concurrency: int | bulk.Adaptive, seconds: float, since: float
) -> Seen:
    """Call for so many seconds from the very beginning."""
    seen = Seen(since)
    async with GatewaySession(
        url,
        access_token="-",  # noqa: S106
        max_connections=200,
        retry_budget=None,
        trust_env=False,
        observers=[seen],
    ) as gateway:

        async def call(_: int) -> Any:
            return await gateway.country_data.list_countries()

        run = bulk.run(call, itertools.count(), concurrency=concurrency)
        async with aclosing(run) as results:
            async for result in results:
                seen.lost += isinstance(result.error, RateLimitedError)
                if time.perf_counter() - seen.began >= seconds:
                    break
    return seen


def measure(name: str, concurrency: int | bulk.Adaptive, seconds: float) -> Seen:
    """Start a server of this name and measure."""
    with server("table_server", name, str(FACTOR)) as url:
        since = min(TABLE[name].since, seconds / 2)
        return asyncio.run(_measure(url, concurrency, seconds, since))


def compare(name: str, seconds: float) -> dict[str, Any]:
    """Measure with each of the fixed numbers and without one."""
    fixed = [measure(name, number, seconds) for number in FIXED.get(name, (50,))]
    found = measure(name, bulk.Adaptive(maximum=100), seconds)
    best = max(seen.statuses[200] for seen in fixed)
    return {
        "name": name,
        "rate": found.statuses[200] / seconds,
        "ratio": found.statuses[200] / max(1, best),
        "refused": found.refused,
        "lost": found.lost,
    }


def missed(outcome: dict[str, Any]) -> list[str]:
    """Say which targets were missed."""
    name = outcome["name"]
    gateway = TABLE[name]
    found = []
    if outcome["ratio"] < gateway.wanted:
        found.append(f"{name}: {outcome['ratio']:.2f} of the best fixed number")
    if outcome["refused"] > gateway.refused:
        found.append(f"{name}: {outcome['refused']:.1%} refused")
    if outcome["lost"]:
        found.append(f"{name}: {outcome['lost']} items failed for a 429")
    return found


def row(outcome: dict[str, Any]) -> str:
    """Return one row of the table."""
    gateway = TABLE[outcome["name"]]
    cells = (
        outcome["name"],
        f"{outcome['rate']:.0f}",
        f"{outcome['ratio']:.2f}",
        f"{gateway.wanted:.2f}",
        f"{outcome['refused']:.2%}",
        f"{gateway.refused:.0%}" if gateway.refused < 1 else "",
        outcome["lost"],
        "fail" if missed(outcome) else "pass",
    )
    return f"| {' | '.join(map(str, cells))} |"


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return how many targets were missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=TABLE, action="append", help="these gateways only")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each measurement")
    given = parser.parse_args(arguments)
    print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}")
    problems = []
    for name in given.only or TABLE:
        outcome = compare(name, given.seconds)
        print(row(outcome), flush=True)
        problems += missed(outcome)
    for problem in problems:
        print(f"missed: {problem}")
    return len(problems)


if __name__ == "__main__":
    sys.exit(main())
