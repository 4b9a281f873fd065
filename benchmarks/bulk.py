"""What `bulk.run` costs: time against the engine alone, and memory per item."""

import argparse
import asyncio
import gc
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.processes import MIB, memory, server
from gateway_sdk import GatewaySession, GatewayTransport, bulk

CALLS: Final = 1000
CONCURRENCY: Final = 50
LATENCY: Final = 0.05
RATIO: Final = 1.10
WARM: Final = 0.1
"""The share of the items after which memory is first looked at."""
PER_ITEM: Final = 1.0
"""Bytes that an item may leave behind: one that was kept would take fifty at the least."""


async def bare(_: GatewaySession, url: str) -> float:
    """Make the calls on the engine alone, by as many tasks as may be under way."""
    numbers = iter(range(CALLS))

    async def work(transport: GatewayTransport) -> None:
        for _ in numbers:
            request = httpx.Request("POST", f"{url}/countrydata/1.0.0/listData", content=b"")
            response = await transport.handle_async_request(request)
            await response.aread()
            await response.aclose()

    async with GatewayTransport() as transport:
        began = time.perf_counter()
        await asyncio.gather(*(work(transport) for _ in range(CONCURRENCY)))
        return time.perf_counter() - began


async def in_turn(gateway: GatewaySession, _: str) -> float:
    """Make the same calls with the session, by as many tasks as may be under way."""
    numbers = iter(range(CALLS))

    async def work() -> None:
        for _ in numbers:
            await gateway.country_data.list_countries()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return time.perf_counter() - began


async def in_bulk(gateway: GatewaySession, _: str) -> float:
    """Make the same calls with the session and `bulk.run`."""

    async def call(_: int) -> Any:
        return await gateway.country_data.list_countries()

    began = time.perf_counter()
    async for result in bulk.run(call, range(CALLS), concurrency=CONCURRENCY):
        _ = result.value
    return time.perf_counter() - began


async def compare(url: str, rounds: int) -> dict[str, float]:
    """Take turns; return the medians, and that of the ratios of each round."""
    ways: dict[str, Callable[[GatewaySession, str], Awaitable[float]]]
    ways = {"bare": bare, "session": in_turn, "bulk": in_bulk}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            async with GatewaySession(url, access_token="-", trust_env=False) as gateway:  # noqa: S106
                seconds[name].append(await way(gateway, url))
    found = {name: statistics.median(times) for name, times in seconds.items()}
    for other in ("bare", "session"):
        pairs = zip(seconds["bulk"], seconds[other], strict=True)
        found[f"bulk/{other}"] = statistics.median(one / two for one, two in pairs)
    return found


async def per_item(count: int, **options: Any) -> float:
    """Run over so many items that do nothing, and return the bytes that each leaves behind."""
    before = 0.0

    async def call(number: int) -> int:
        return number

    done = 0
    async for _ in bulk.run(call, itertools.islice(itertools.count(), count), **options):
        done += 1
        if done == int(count * WARM):
            gc.collect()
            before = memory()
    return (memory() - before) * MIB / (count * (1 - WARM))


def missed(outcome: dict[str, float]) -> list[str]:
    """Say which budgets were missed."""
    found = []
    if outcome["bulk/bare"] > RATIO:
        found.append(f"{outcome['bulk/bare']:.2f} times the engine's time")
    if outcome["bytes_per_item"] > PER_ITEM:
        found.append(f"{outcome['bytes_per_item']:.1f} bytes per item")
    return found


def run(rounds: int, items: int) -> dict[str, float]:
    """Measure all."""
    with server("limited_server", "1000", str(LATENCY), "429", "0", "0") as url:
        outcome = asyncio.run(compare(url, rounds))
    outcome["bytes_per_item"] = asyncio.run(per_item(items))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        began = time.perf_counter()
        count = max(items // 10, 1)
        journal = asyncio.run(per_item(count, journal=path, job="bench"))
        outcome["bytes_per_key"] = journal
        outcome["journal_us_per_item"] = (time.perf_counter() - began) / count * 1e6
        began = time.perf_counter()
        asyncio.run(per_item(count, journal=path, job="bench"))
        outcome["resume_us_per_item"] = (time.perf_counter() - began) / count * 1e6
    return outcome


def main() -> int:
    """Do what the command line says; return how many budgets were missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--items", type=int, default=1_000_000, help="for the memory per item")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    given = parser.parse_args()
    outcome = run(given.rounds, given.items)
    for name, figure in outcome.items():
        print(f"{name}: {figure:.3f}")
    for problem in missed(outcome):
        print(f"missed: {problem}")
    if given.json:
        given.json.write_text(json.dumps(outcome, indent=2) + "\n")
    return len(missed(outcome))


if __name__ == "__main__":
    sys.exit(main())
