"""The calls of a soak, how they are cut, and what is held when none is under way."""

import asyncio
import gc
import json
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.calls import OPERATIONS, Documents
from benchmarks.processes import memory, open_files
from gateway_sdk import CallInfo, GatewayError, GatewaySession, Observer, Outcome, RetryPolicy

CONNECTIONS: Final = 20
CALLERS: Final = 60
PARTS: Final = 10
SETTLE: Final = 5.0
"""Seconds that what was cut may take to be closed."""


@dataclass
class Sample:
    """What is held when a tenth of the run has ended and nothing is under way.

    Attributes:
        calls: Made so far.
        seconds: Since the beginning.
        descriptors: Of files and sockets.
        tasks: But for the one that looks.
        threads: That read for an upload.
        memory_mib: Resident.
        connections: Open at the server.
        free: Slots of the gate.
        outcomes: How the calls of this tenth ended.
    """

    calls: int
    seconds: float
    descriptors: int
    tasks: int
    threads: int
    memory_mib: float
    connections: int
    free: int
    outcomes: dict[str, int]


class Ends(Observer):
    """Knows how far the calls were that were cut, and how long the others take.

    Attributes:
        cut: Calls that were cancelled, by what they had done by then.
        typical: Seconds of a call that is not cut.
    """

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
        self._url = httpx.URL(url)
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
            name, typical = self._random.choice(list(OPERATIONS)), self._ends.typical
            call = OPERATIONS[name](self._gateway, self._documents)
            # At once, or at any time in the life of a call; some have ended by then.
            after = self._random.choice((0, 1, 1, 1)) * self._random.uniform(0, 1.5 * typical)
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
        gate = self._gateway._caller.client.open()._admission.slots  # type: ignore[attr-defined] # noqa: SLF001
        until = time.perf_counter() + SETTLE
        while time.perf_counter() < until:
            await asyncio.sleep(0.01)
            if self._tasks() == 0 and gate.free == gate.size and not _uploading():
                break
        gc.collect()
        statistics = await self.statistics(CONNECTIONS)
        return Sample(
            calls=calls,
            seconds=time.perf_counter() - self._began,
            descriptors=open_files(),
            tasks=self._tasks(),
            threads=_uploading(),
            memory_mib=memory(),
            connections=statistics["open"],
            free=gate.free,
            outcomes=self._counted(),
        )

    def _counted(self) -> dict[str, int]:
        """Return how the calls ended, and begin to count anew."""
        outcomes, self._outcomes = self._outcomes, Counter()
        cut, self._ends.cut = self._ends.cut, Counter()
        outcomes["cut before it began"] = outcomes.pop("cut", 0) - cut.total()
        outcomes.update({f"cut {outcome.name}": count for outcome, count in cut.items()})
        return dict(outcomes.most_common())

    def _tasks(self) -> int:
        return len(asyncio.all_tasks()) - self._others

    async def statistics(self, most: int) -> dict[str, Any]:
        """Ask the server, until it has seen that no more than so many connections are open."""
        until = time.perf_counter() + SETTLE
        while True:
            found = await self._asked()
            if found["open"] <= most or time.perf_counter() > until:
                return found
            await asyncio.sleep(0.01)

    async def _asked(self) -> dict[str, Any]:
        """Ask the server once, over a connection of its own."""
        reader, writer = await asyncio.open_connection(self._url.host, self._url.port)
        writer.write(b"GET /statistics HTTP/1.1\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        body = await reader.readexactly(int(head.lower().split(b"content-length: ")[1]))
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        statistics: dict[str, Any] = json.loads(body)
        return statistics

    async def usable(self) -> int:
        """Return how many calls succeed that the server answers only all at the same time."""
        held = self._gateway.with_options(headers={"X-Hold": str(CONNECTIONS)}, deadline=10)
        calls = (held.wallet.order_history(page=1, take=1) for _ in range(CONNECTIONS))
        replies = await asyncio.gather(*calls, return_exceptions=True)
        return sum(not isinstance(reply, BaseException) for reply in replies)


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
    """Run and return all samples."""
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
    with tempfile.TemporaryDirectory() as folder:
        run = Soak(gateway, ends, url, seed, Documents(Path(folder)))
        samples = []
        async with gateway:
            for part in range(1, PARTS + 1):
                await run.tenth(calls // PARTS)
                samples.append(await run.sample(part * (calls // PARTS)))
                report(samples[-1])
            usable = await run.usable()
        after = await run.statistics(0)
    return {
        "connections": CONNECTIONS,
        "callers": CALLERS,
        "samples": [vars(sample) for sample in samples],
        "usable": usable,
        "server": after,
    }
