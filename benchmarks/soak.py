"""Very many calls, a third of them cut at random, against a server that fails at random.

What leaks shows: after each tenth of the run nothing is under way, and what is still held is
printed. At the end every connection that a session may have must be usable at the same time.
"""

import argparse
import asyncio
import gc
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from benchmarks.measures.load import ask
from benchmarks.processes import memory, open_files, server
from benchmarks.tables import head, row, told
from gateway_sdk import (
    CallInfo,
    GatewayError,
    GatewaySession,
    Multipart,
    Observer,
    Outcome,
    RetryPolicy,
)

CONNECTIONS: Final = 20
CALLERS: Final = 60
PARTS: Final = 10
SETTLE: Final = 5.0
"""Seconds that what was cut may take to be closed."""
WARM: Final = 2
"""The tenth from which on nothing may grow."""
MEMORY_BUDGET: Final = 8.0
COLUMNS: Final = (
    *("calls", "seconds", "descriptors", "tasks", "threads", "RSS, MiB", "connections"),
    *("slots free", "how the calls of this tenth ended"),
)

Sample = dict[str, Any]
"""What is held when a tenth of the run has ended and nothing is under way."""


class Documents:
    """What is uploaded: larger than a piece, so that some of it is cut in its middle."""

    def __init__(self, folder: Path) -> None:
        self.content = bytes(200_000)
        self.path = folder / "document.pdf"
        self.path.write_bytes(self.content)

    async def stream(self) -> AsyncIterator[bytes]:
        """Give the document in pieces."""
        for start in range(0, len(self.content), 50_000):
            yield self.content[start : start + 50_000]


OPERATIONS: Final[list[Callable[[GatewaySession, Documents], Coroutine[Any, Any, Any]]]] = [
    lambda gateway, _: gateway.country_data.list_countries(),
    lambda gateway, _: gateway.wallet.spot_trading_available_balance(),
    lambda gateway, _: gateway.wallet.order_history(page=1, take=10),
    lambda gateway, _: gateway.currency.exchange_rate_series(
        base="EUR", symbols="USD", start_date="2026-01-01", end_date="2026-01-31"
    ),
    lambda gateway, _: gateway.wallet.cancel_order("w-1", "o-1"),
    lambda gateway, _: gateway.customer.create_customer({"customerName": "Ada"}),
    lambda gateway, given: gateway.aml.update_document("d-1", given.content),
    lambda gateway, given: gateway.aml.update_document("d-1", given.path),
    lambda gateway, given: gateway.aml.upload_document(given.stream()),
    lambda gateway, given: gateway.aml.upload_document(
        Multipart({"kind": "scan"}, {"front": given.path})
    ),
]


class Ends(Observer):
    """Knows how far the calls were that were cut, and how long (in seconds) the others take."""

    def __init__(self) -> None:
        self.cut: Counter[Outcome] = Counter()
        self.typical = 0.01

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        """Note how a call ended."""
        del call
        if isinstance(error, asyncio.CancelledError):
            self.cut[outcome] += 1
        elif error is None:
            self.typical += 0.01 * (elapsed - self.typical)


class Soak:
    """A run, seen from its session."""

    def __init__(
        self, gateway: GatewaySession, ends: Ends, url: str, seed: int, documents: Documents
    ) -> None:
        self._gateway = gateway
        self._ends = ends
        self._url = url
        self._random = random.Random(seed)  # noqa: S311 - the same choices each time
        self._documents = documents
        self._others = len(asyncio.all_tasks())
        self._began = time.perf_counter()
        self._outcomes: Counter[str] = Counter()
        self._left = 0

    async def tenth(self, calls: int) -> None:
        """Make so many calls, more at once than there are connections."""
        self._left = calls
        await asyncio.gather(*(self._caller() for _ in range(CALLERS)))

    async def _caller(self) -> None:
        while self._left:
            self._left -= 1
            call = self._random.choice(OPERATIONS)(self._gateway, self._documents)
            # At once, or at any time in the life of a call; some have ended by then.
            after = self._random.choice((0, 1, 1, 1)) * self._random.uniform(0, 1.5)
            after *= self._ends.typical
            way = self._random.choice((*[_to_its_end] * 4, _timed_out, _cancelled))
            try:
                await way(call, after)
                outcome = "done"
            except (asyncio.CancelledError, TimeoutError):
                outcome = "cut"
            except GatewayError as error:
                outcome = f"{type(error).__name__} {error.outcome.name}"
            except Exception as error:  # noqa: BLE001 - it is counted, and must not happen
                outcome = f"UNEXPECTED {type(error).__name__}"
            self._outcomes[outcome] += 1

    async def sample(self, calls: int) -> Sample:
        """Wait until what was cut is closed, and see what is held."""
        slots = self._gateway._caller.shared.open()._slots  # type: ignore[attr-defined] # noqa: SLF001
        until = time.perf_counter() + SETTLE
        while time.perf_counter() < until:
            await asyncio.sleep(0.01)
            if self._tasks() == 0 and slots.free == slots.size and not _uploading():
                break
        gc.collect()
        return {
            "calls": calls,
            "seconds": round(time.perf_counter() - self._began),
            "descriptors": open_files(),
            "tasks": self._tasks(),
            "threads": _uploading(),
            "memory_mib": round(memory(), 1),
            "connections": (await statistics(self._url, CONNECTIONS))["open"],
            "free": slots.free,
            "outcomes": self._counted(),
        }

    def _counted(self) -> dict[str, int]:
        """Return how the calls ended, and begin to count anew."""
        outcomes, self._outcomes = self._outcomes, Counter()
        cut, self._ends.cut = self._ends.cut, Counter()
        outcomes["cut before it began"] = outcomes.pop("cut", 0) - cut.total()
        outcomes.update({f"cut {outcome.name}": count for outcome, count in cut.items()})
        return dict(outcomes.most_common())

    def _tasks(self) -> int:
        return len(asyncio.all_tasks()) - self._others

    async def usable(self) -> int:
        """Return how many calls succeed that the server answers only all at the same time."""
        held = self._gateway.with_options(headers={"X-Hold": str(CONNECTIONS)}, deadline=10)
        calls = (held.wallet.order_history(page=1, take=1) for _ in range(CONNECTIONS))
        replies = await asyncio.gather(*calls, return_exceptions=True)
        return sum(not isinstance(reply, BaseException) for reply in replies)


async def statistics(url: str, most: int) -> dict[str, Any]:
    """Ask the server, until it has seen that no more than so many connections are open."""
    until = time.perf_counter() + SETTLE
    while True:
        found = await asyncio.to_thread(ask, url)
        if found["open"] <= most or time.perf_counter() > until:
            return found
        await asyncio.sleep(0.01)


async def _to_its_end(call: Any, _: float) -> None:
    await call


async def _timed_out(call: Any, after: float) -> None:
    async with asyncio.timeout(after):
        await call


async def _cancelled(call: Any, after: float) -> None:
    task = asyncio.ensure_future(call)
    if not after:
        task.cancel()  # before it has begun
    timer = asyncio.get_running_loop().call_later(after, task.cancel)
    try:
        await task
    finally:
        timer.cancel()


def _uploading() -> int:
    return sum(thread.name == "gateway-upload" for thread in threading.enumerate())


async def soak(
    url: str, calls: int, seed: int, report: Callable[[Sample], object]
) -> dict[str, Any]:
    """Run, report each sample, and return all of them."""
    ends = Ends()
    gateway = GatewaySession(
        url,
        access_token="-",  # noqa: S106
        tenant_id="soak",
        max_connections=CONNECTIONS,
        retry=RetryPolicy(attempts=2, backoff=0.002),
        trust_env=False,
        observers=[ends],
    )
    samples = list[Sample]()
    with tempfile.TemporaryDirectory() as folder:
        run = Soak(gateway, ends, url, seed, Documents(Path(folder)))
        async with gateway:
            for part in range(1, PARTS + 1):
                await run.tenth(calls // PARTS)
                samples.append(await run.sample(part * (calls // PARTS)))
                report(samples[-1])
            usable = await run.usable()
        after = await statistics(url, 0)
    return {"samples": samples, "usable": usable, "server": after}


def missed(outcome: dict[str, Any]) -> list[str]:
    """Say what was not as it should be."""
    found, samples = [], outcome["samples"]
    if outcome["usable"] != CONNECTIONS:
        found.append(f"only {outcome['usable']} connections are usable")
    if outcome["server"]["open"]:
        found.append(f"{outcome['server']['open']} connections outlive the session")
    for sample in samples:
        at = f"after {sample['calls']} calls"
        if sample["tasks"] or sample["threads"]:
            found.append(f"{at}: {sample['tasks']} tasks, {sample['threads']} threads left")
        if sample["free"] != CONNECTIONS:
            found.append(f"{at}: {sample['free']} slots free")
        if sample["connections"] > CONNECTIONS:
            found.append(f"{at}: {sample['connections']} connections at the server")
        found += [f"{at}: {name}" for name in sample["outcomes"] if "UNEXPECTED" in name]
    warm, *later = samples[WARM - 1 :]
    if max(sample["memory_mib"] for sample in later) - warm["memory_mib"] > MEMORY_BUDGET:
        found.append("memory grows")
    most = max(sample["descriptors"] for sample in later)
    if most - samples[0]["descriptors"] > CONNECTIONS:
        found.append("descriptors grow")
    return found


def show(sample: Sample) -> None:
    """Print one row of the table."""
    outcomes = ", ".join(f"{count} {name}" for name, count in sample["outcomes"].items())
    print(row([*[*sample.values()][:-1], outcomes]), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; return how much was not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1, help="of cancellations and faults")
    given = parser.parse_args(arguments)
    print(head(COLUMNS))
    with server("soak_server", str(given.seed)) as url:
        outcome = asyncio.run(soak(url, given.calls, given.seed, show))
    print(f"\n{outcome['usable']} of {CONNECTIONS} slots usable at the end")
    print("what the server did:", json.dumps(outcome["server"]["made"]))
    return told(missed(outcome))


if __name__ == "__main__":
    sys.exit(main())
