"""What an observer adds to the CPU time of a call: none, an empty one, and OpenTelemetry.

    python -m benchmarks.observers [--turns 300]

It needs opentelemetry-sdk. Spans and metrics are collected, and not exported. The kinds take turns
after every few calls, so that what the machine does meanwhile hits all of them alike; shown are the
fastest turn and the median.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from benchmarks.peers.request import BODY, TOKEN, check
from benchmarks.processes import server
from gateway_sdk import GatewaySession, Observer
from gateway_sdk.otel import OpenTelemetry

BATCH: Final = 20
"""Calls in a turn."""
SERIES: Final = {
    "base": BODY["base"],
    "symbols": BODY["symbols"],
    "start_date": BODY["startDate"],
    "end_date": BODY["endDate"],
}


def kinds() -> dict[str, Sequence[Observer]]:
    """Return the observers of each kind."""
    off, on = TracerProvider(sampler=ALWAYS_OFF), TracerProvider()
    metrics = MeterProvider([InMemoryMetricReader()])
    return {
        "no observer": [],
        "an empty observer": [Observer()],
        "OpenTelemetry without its SDK": [OpenTelemetry()],
        "its sampler off": [OpenTelemetry(off)],
        "its sampler off, propagate=False": [OpenTelemetry(off, propagate=False)],
        "its sampler on": [OpenTelemetry(on)],
        "its sampler on, and metrics": [OpenTelemetry(on, metrics)],
    }


async def measure(url: str, turns: int) -> dict[str, list[float]]:
    """Return the CPU time of a call in µs, in each turn of each kind."""
    seen: dict[str, list[float]] = {}
    async with AsyncExitStack() as stack:
        calls: dict[str, Callable[[], Awaitable[Any]]] = {}
        for kind, observers in kinds().items():
            session = GatewaySession(url, access_token=TOKEN, observers=observers)
            gateway = await stack.enter_async_context(session)
            calls[kind] = partial(gateway.currency.exchange_rate_series, **SERIES)
            check(await calls[kind]())
        for _ in range(turns):
            for kind, call in calls.items():
                began = time.process_time()
                for _ in range(BATCH):
                    await call()
                each = (time.process_time() - began) / BATCH
                seen.setdefault(kind, []).append(1e6 * each)
    return seen


def lines(seen: dict[str, list[float]]) -> list[str]:
    """Return a line for each kind: the time of a call, and what is added to that of the first."""
    (fastest, middle), *_ = ((min(each), statistics.median(each)) for each in seen.values())
    table = [f"{'µs of CPU time per call':34}  fastest   added   median   added"]
    for kind, each in seen.items():
        low, usual = min(each), statistics.median(each)
        table.append(
            f"{kind:34} {low:8.1f} {low - fastest:7.1f} {usual:8.1f} {usual - middle:7.1f}"
        )
    return table


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.observers", description=__doc__)
    parser.add_argument("--turns", type=int, default=300)
    given = parser.parse_args(arguments)
    with server("gateway_server") as url:
        print(*lines(asyncio.run(measure(url, given.turns))), sep="\n")


if __name__ == "__main__":
    main()
