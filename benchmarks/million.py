"""A million queries over a folder: time and memory of planning, submitting, looking and collecting.

`python -m benchmarks.million [ITEMS] [CHUNK]`. Each step runs in a process of its own, whose
largest memory is shown. The results are written without any gateway.
"""

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.processes import child, peak_memory
from benchmarks.tables import head
from gateway_sdk.fleet import FolderStore, Job
from gateway_sdk.fleet._store import ItemRecord, State

STEPS: Final = ("nothing", "plan", "plan again", "submit", "results", "status", "collect")


def queries(count: int) -> Iterator[dict[str, Any]]:
    """Yield so many queries."""
    for number in range(count):
        yield {
            "base": f"B{number // 16:05d}",
            "symbols": f"S{number % 16:02d}",
            "start_date": f"2026-01-{1 + number % 27:02d}",
            "end_date": "2026-01-31",
        }


async def step(name: str, folder: Path, count: int, chunk: int) -> None:
    """Do one step."""
    store = FolderStore(str(folder / "store"))
    job = Job("million", operation="exchange_rate_series", store=store)
    if name.startswith("plan"):
        await job.plan(queries(count), chunk=chunk)
    if name == "submit":
        await (await job.load()).submit(_send)
    if name == "results":
        await _write_results(job, store)
    if name == "status":
        await (await job.load()).status()
    if name == "collect":
        await (await job.load()).collect(folder / "rates.parquet")


async def _send(address: str, chunk: int) -> None:
    """Take a message."""


async def _write_results(job: Job, store: FolderStore) -> None:
    """Write a month of rates for each query."""
    plan = (await job.load()).record
    days = ",".join(f'"2026-01-{day:02d}":{{"USD":1.{day:02d}}}' for day in range(1, 31))
    for chunk in range(plan.chunks):
        items = await store.read_items(plan, chunk)
        records = [
            ItemRecord(
                index=index,
                state=State.DONE,
                item=item,
                value=f'{{"base":"EUR","n":{index},"rates":{{{days}}}}}',
                attempts=1,
                elapsed=0.02,
            )
            for index, item in zip(plan.indexes(chunk), items, strict=True)
        ]
        await store.write_results(plan, chunk, records)


def main(count: int = 1_000_000, chunk: int = 100) -> None:
    """Run all steps, and print a row for each."""
    with tempfile.TemporaryDirectory() as folder:
        print(f"{count} queries in chunks of {chunk}")
        print(head(("step", "s", "CPU s", "largest memory, MiB")))
        for name in STEPS:
            command = (sys.executable, "-m", "benchmarks.million", name, folder, count, chunk)
            print(child([*map(str, command)])[0].decode().strip(), flush=True)
        size = (Path(folder) / "rates.parquet").stat().st_size
        print(f"The file has {size / 2**20:.0f} MiB.")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments and arguments[0] in STEPS:
        began = time.monotonic()
        name, place, *numbers = arguments
        asyncio.run(step(name, Path(place), *map(int, numbers)))
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu, seconds = used.ru_utime + used.ru_stime, time.monotonic() - began
        # Not `ru_maxrss`: on Linux it begins with what the process had that started this one.
        print(f"| {name} | {seconds:.1f} | {cpu:.1f} | {peak_memory():.0f} |")
    else:
        main(*map(int, arguments))
