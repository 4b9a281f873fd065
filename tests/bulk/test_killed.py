"""Killed with -9 at any moment: what was yielded is not lost, and nothing stands there twice."""

import asyncio
import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk.sandbox import Fault, Faults, Sandbox
from tests.bulk.journals import lines

COUNT = 250
PROGRAM = Path(__file__).parent / "killed.py"
ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(240)
async def test_ten_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    """Resumed each time, the journal ends complete: one line per item, with its value."""
    path = tmp_path / "journal.jsonl"
    moments = random.Random(7)  # noqa: S311 - repeatable, not secret
    faults = Faults(seed=7)
    for fault, rate in (
        (Fault.too_many_requests(retry_after=0), 0.05),
        (Fault.status(500), 0.03),
        (Fault.drop_before_read(), 0.02),
        (Fault.drop_after_read(), 0.02),
        (Fault.cut_body(), 0.02),
    ):
        faults.on("exchange_rate_series", fault, rate=rate)

    yielded: set[str] = set()
    async with Sandbox(faults=faults).serve() as base_url:
        for kill in range(10):
            # Counted in fresh results, so that each run gets a little further.
            seen = await killed(base_url, path, after=moments.randint(1, COUNT // 12))
            yielded |= seen
            done = _items(path)
            assert yielded <= done, f"lost after kill {kill}"
            assert len(done) < COUNT
        last = await killed(base_url, path, after=None)

    assert len(last) == COUNT
    assert yielded <= last == _items(path)
    assert len(lines(path)) == COUNT
    assert {line["state"] for line in lines(path)} == {"done"}
    assert all("rates" in line["value"] for line in lines(path))


async def killed(base_url: str, path: Path, *, after: int | None) -> set[str]:
    """Start the program and kill it after so many fresh results; return all that it yielded."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        base_url,
        str(path),
        str(COUNT),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
    )
    assert process.stdout is not None
    seen: list[str] = []
    fresh = 0
    async for line in process.stdout:
        item, from_journal, _ = line.decode().split()
        seen.append(item)
        fresh += from_journal == "0"
        if after is not None and fresh == after:
            process.send_signal(signal.SIGKILL)
    assert await process.wait() == (0 if after is None else -signal.SIGKILL)
    assert len(seen) == len(set(seen))
    return set(seen)


def _items(path: Path) -> set[Any]:
    """Return the items whose lines are whole; the last may be torn."""
    whole = path.read_bytes().rpartition(b"\n")[0]
    found = [line for line in whole.split(b"\n") if line]
    items = [json.loads(line)["item"] for line in found]
    assert len(items) == len(set(items))
    return set(items)
