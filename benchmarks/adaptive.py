"""Compare `concurrency="adaptive"` with the best fixed number, on servers with hidden limits."""

import argparse
import asyncio
import itertools
import sys
import time
from collections import Counter
from contextlib import aclosing
from typing import Any, Final

from benchmarks.processes import server
from benchmarks.tables import head, row, told
from gateway_sdk import Attempt, CallInfo, GatewaySession, Observer, bulk

LATENCY: Final = 0.2
LIMITS: Final = (4, 20, 100)
WAYS: Final = {
    "429": (429, 0, 0.0),
    "429, Retry-After: 1": (429, 1, 0.0),
    "503": (503, 0, 0.0),
    "429, latency from 0.1 to 0.3 s": (429, 0, 0.5),
}
MAXIMUM: Final = 200
THROUGHPUT: Final = 0.85
REFUSED: Final = 0.02
COLUMNS: Final = ("limit", "refuses with", "calls/s", "÷ best fixed", "refused", "failed")


class Statuses(Observer):
    """Counts what the gateway answered, while it is asked to."""

    def __init__(self) -> None:
        self.seen: Counter[int | None] = Counter()

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        """Count an attempt."""
        del call
        self.seen[attempt.status] += 1


async def measure(
    url: str, concurrency: int | bulk.Adaptive, warm: float, seconds: float
) -> dict[str, float]:
    """Call for some seconds to get warm and for some more; return what was seen in these."""
    statuses = Statuses()
    failed = 0
    async with GatewaySession(
        url,
        access_token="-",  # noqa: S106
        max_connections=MAXIMUM,
        retry_budget=None,
        trust_env=False,
        observers=[statuses],
    ) as gateway:

        async def call(_: int) -> Any:
            return await gateway.country_data.list_countries()

        began = time.perf_counter()
        is_warm = False
        run = bulk.run(call, itertools.count(), concurrency=concurrency)
        async with aclosing(run) as results:
            async for result in results:
                now = time.perf_counter() - began
                if not is_warm and now >= warm:
                    is_warm = True
                    statuses.seen.clear()
                    began_measuring = now
                if is_warm and now - began_measuring >= seconds:
                    break
                failed += is_warm and result.error is not None
    fine, refused = statuses.seen[200], statuses.seen[429] + statuses.seen[503]
    return {"rate": fine / seconds, "refused": refused / (fine + refused), "failed": failed}


async def sweep(url: str, limit: int, warm: float, seconds: float) -> dict[str, float]:
    """Measure with the best fixed number, which only who knows the limit can give, and without."""
    fixed = await measure(url, limit, min(warm, 1.0), seconds)
    found = await measure(url, bulk.Adaptive(maximum=MAXIMUM), warm, seconds)
    return {**found, "ratio": found["rate"] / fixed["rate"]}


def missed(outcome: dict[str, Any]) -> list[str]:
    """Say which targets were missed."""
    name = f"{outcome['limit']}, {outcome['way']}"
    found = []
    if outcome["ratio"] < THROUGHPUT:
        found.append(f"{name}: {outcome['ratio']:.2f} of the best fixed number")
    if outcome["refused"] > REFUSED:
        found.append(f"{name}: {outcome['refused']:.1%} refused")
    return found


def run(limit: int, way: str, warm: float, seconds: float) -> dict[str, Any]:
    """Start a server with a limit, and measure."""
    status, retry_after, noise = WAYS[way]
    arguments = (limit, LATENCY, status, retry_after, noise, 0.0)
    with server("limited_server", *map(str, arguments)) as url:
        outcome = asyncio.run(sweep(url, limit, warm, seconds))
    return {"limit": limit, "way": way, **outcome}


def main() -> int:
    """Do what the command line says; return how many targets were missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, choices=LIMITS, action="append", help="these only")
    parser.add_argument("--warm", type=float, default=30.0, help="seconds before it counts")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds that count")
    given = parser.parse_args()
    print(head(COLUMNS))
    problems = []
    for limit, way in itertools.product(given.limit or LIMITS, WAYS):
        outcome = run(limit, way, given.warm, given.seconds)
        figures = f"{outcome['rate']:.0f}", f"{outcome['ratio']:.2f}", f"{outcome['refused']:.2%}"
        print(row((limit, way, *figures, outcome["failed"])), flush=True)
        problems += missed(outcome)
    return told(problems)


if __name__ == "__main__":
    sys.exit(main())
