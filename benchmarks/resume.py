"""Kill a bulk run with -9 at random moments, resume it each time, and look what became of it.

The sandbox serves in this process and fails at one request in seven; the run is another process.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from benchmarks.processes import ROOT
from benchmarks.tables import told
from gateway_sdk.sandbox import Fault, Faults, Sandbox

FAULTS: Final = (
    (Fault.too_many_requests(retry_after=0), 0.05),
    (Fault.status(500), 0.03),
    (Fault.drop_before_read(), 0.02),
    (Fault.drop_after_read(), 0.02),
    (Fault.cut_body(), 0.02),
)


async def resume(
    path: Path, count: int, kills: int, seed: int, *, refused: float = 0.0
) -> dict[str, Any]:
    """Kill and resume so many times, then run to the end; return what was seen."""
    moments, began = random.Random(seed), time.perf_counter()  # noqa: S311 - repeatable
    faults = Faults(seed=seed)
    for fault, rate in (*FAULTS, (Fault.too_many_requests(retry_after=1), refused)):
        faults.on("exchange_rate_series", fault, rate=rate)
    yielded: set[str] = set()
    lost: set[str] = set()
    at: list[int] = []
    async with Sandbox(faults=faults).serve() as base_url:
        for _ in range(kills):
            # In fresh results, so that each run gets a little further, and none to the end.
            after = moments.randint(1, max(1, count // (kills + 2)))
            yielded |= await _run(base_url, path, count, after)
            kept = items(path)
            at.append(len(kept))
            lost |= yielded - set(kept)
        last = await _run(base_url, path, count, None)
    kept = items(path)
    return {
        "count": count,
        "killed_at": at,
        "lost": len(lost | yielded - set(kept)),
        "doubled": len(kept) - len(set(kept)),
        "missing": count - len(set(kept)),
        "yielded_at_last": len(last),
        "failed": sum(row["state"] != "done" for row in rows(path)),
        "seconds": round(time.perf_counter() - began, 1),
    }


async def _run(base_url: str, path: Path, count: int, after: int | None) -> set[str]:
    """Start the program and kill it after so many fresh results; return all that it yielded."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.resumed", base_url, str(path), str(count)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    output = process.stdout or asyncio.StreamReader()
    seen: list[str] = []
    fresh = 0
    async for line in output:
        item, from_journal = line.decode().split()
        seen.append(item)
        fresh += from_journal == "0"
        if after is not None and fresh == after:
            process.send_signal(signal.SIGKILL)
    expected = 0 if after is None else -signal.SIGKILL
    if await process.wait() != expected or len(seen) != len(set(seen)):
        msg = f"the run ended with {process.returncode}, after {len(seen)} results"
        raise RuntimeError(msg)
    return set(seen)


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows, with their items and values; none if the run was killed before the first."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        try:
            found = [dict(row) for row in database.execute("select * from items order by id")]
        except sqlite3.OperationalError:
            return []
    for row in found:
        row |= {name: row[name] and json.loads(row[name]) for name in ("item", "value")}
    return found


def items(path: Path) -> list[str]:
    """Return the items that have a row."""
    return [row["item"] for row in rows(path)]


def missed(outcome: dict[str, Any]) -> list[str]:
    """Say what was not as it should be."""
    found = [
        f"{outcome[what]} {what}"
        for what in ("lost", "doubled", "missing", "failed")
        if outcome[what]
    ]
    if outcome["yielded_at_last"] != outcome["count"]:
        found.append(f"{outcome['yielded_at_last']} results at last")
    return found


def main() -> int:
    """Do what the command line says; return how much was not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1, help="of moments and faults")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        run = resume(path, given.items, given.kills, given.seed, refused=0.002)
        outcome = asyncio.run(run)
    print(json.dumps(outcome, indent=2))
    return told(missed(outcome))


if __name__ == "__main__":
    sys.exit(main())
