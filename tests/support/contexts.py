"""Random contexts of calls: tasks, scopes, bulk items, stalled loops, errors that calls share."""

import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio

from gateway_sdk import (
    ConnectionFailedError,
    DeadlineExceededError,
    GatewayError,
    GatewaySession,
    RetryPolicy,
    bulk,
)
from tests.support.calls import CALLS
from tests.support.failing_server import FailingServer, Line
from tests.support.failing_steps import FAULTS, WELL, others_than
from tests.support.truth import open_session
from tests.support.witness import Record, Witness, lies

OPERATIONS: Final = ("create_customer", "cancel_order", "order_history", "upload_document")
FILES: Final = Path("/proc/self/fd")
LATEST: Final = 10.0
"""Seconds: where each line is traced, as for coverage, a thousand ends at once take that long."""


def eager(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Any:
    def make() -> asyncio.AbstractEventLoop:
        loop = new_loop()
        loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
        return loop

    return make


LOOPS: Final[dict[str, Callable[[], asyncio.AbstractEventLoop]]] = {
    "asyncio": asyncio.new_event_loop
}
if sys.platform != "win32":
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop
if sys.version_info >= (3, 12):
    LOOPS["eager"] = eager(asyncio.new_event_loop)


class SharedTokens:
    """A token source that gives all callers of a refresh the same error object, now and then."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.raised: list[GatewayError] = []

    async def token(self, rejected: object = None) -> str:
        if self.raised and self._chance.random() < 0.1:
            raise self.raised[-1]
        if self._chance.random() < 0.02:
            self.raised.append(ConnectionFailedError("the token service is away"))
            raise self.raised[-1]
        return "second" if rejected else "first"


class Pulse:
    """Counts the seconds in which the loop stood still, but for those that its own code took."""

    BEAT: Final = 0.005

    def __init__(self) -> None:
        self._lost = 0.0
        self._last = time.monotonic(), time.thread_time()
        self._timer = asyncio.get_running_loop().call_later(self.BEAT, self._beat)

    def lost(self) -> float:
        """Return seconds since the start: by `time.sleep`, or because the machine was busy."""
        wall, cpu = self._last
        waited = (time.monotonic() - wall) - (time.thread_time() - cpu) - self.BEAT
        return self._lost + max(0.0, waited)

    def stop(self) -> None:
        self._timer.cancel()

    def _beat(self) -> None:
        self._lost = self.lost()
        self._last = time.monotonic(), time.thread_time()
        self._timer = asyncio.get_running_loop().call_later(self.BEAT, self._beat)


class Round:
    """A server, a session and a hundred calls in random contexts, which last half a second.

    A call must have ended soon after its deadline, but for the seconds of a stalled loop.
    """

    def __init__(self, seed: int, totals: Counter[str]) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - for tests
        self._seed, self._totals = seed, totals
        self._witness = Witness()
        self._calls = 0
        self._left: list[asyncio.Task[Any]] = []
        self._tokens = SharedTokens(self._chance)
        self._shared = GatewayError("content that several calls read")

    async def run(self) -> None:
        chance, loop = self._chance, asyncio.get_running_loop()
        self._pulse = Pulse()
        async with FailingServer(self._script) as server:
            gateway = open_session(
                server.url,
                self._witness,
                access_token=self._tokens,
                max_connections=chance.choice((2, 5, 100)),
                drain=chance.uniform(0.0, 0.1),
                retry=RetryPolicy(backoff=0.01, connect_wait=0.1),
            )
            transport = gateway._caller.shared.open()
            slots = transport._slots  # type: ignore[attr-defined]
            contexts = chance.choices(CONTEXTS, k=chance.choice((20, 40, 300)))
            actors = [asyncio.create_task(self._act(context, gateway)) for context in contexts]
            for _ in range(chance.randrange(4)):
                loop.call_later(chance.uniform(0.0, 0.4), self._stall)
            if chance.random() < 0.3:
                await asyncio.sleep(chance.uniform(0.05, 0.3))
                await gateway.aclose()
            # Three hundred at once take 3 s, and ten times as long on a busy machine that traces.
            _, late = await asyncio.wait(actors, timeout=60)
            assert not late, late
            ends = await asyncio.gather(*actors, return_exceptions=True)
            assert set(ends) == {None}, ends
            await asyncio.gather(*self._left, return_exceptions=True)
            await gateway.aclose()
            await server.until(lambda: not any(line.open for line in server.lines))
            assert slots.free == slots.size
            left = others_than(server.tasks)
            assert not left, left
        self._pulse.stop()
        self._check(server)

    async def _script(self, line: Line) -> None:
        while line.open:
            well = self._chance.random() < 0.6
            await FAULTS[WELL if well else self._chance.choice(sorted(FAULTS))](line)

    def _stall(self) -> None:
        time.sleep(self._chance.uniform(0.01, 0.15))

    def _check(self, server: FailingServer) -> None:
        for record in self._witness.records:
            assert lies(record, server.of(record.call)) == [], (record, server.of(record.call))
            self._totals[f"{record.outcome!r}"] += 1
            self._totals[type(record.error).__name__] += 1
            self._totals["calls"] += 1
            self._totals["attempts"] += len(record.attempts)
        for error in (*self._tokens.raised, self._shared):
            assert (error.operation, error.attempts, error.repeatability) == (None, (), None)

    async def _act(
        self, context: "Callable[[Round, GatewaySession], Awaitable[None]]", gateway: GatewaySession
    ) -> None:
        await asyncio.sleep(self._chance.choice((0.0, self._chance.uniform(0.0, 0.2))))
        self._totals[context.__name__] += 1
        await context(self, gateway)
        task = asyncio.current_task()
        assert task is not None
        # asyncio.TaskGroup leaves a count before Python 3.13.
        assert task.cancelling() == 0 or context is in_a_task_group_that_fails, context
        await asyncio.sleep(self._chance.uniform(0.0, 0.1))  # nobody may cancel this

    def deadline(self) -> float:
        return self._chance.choice((0.001, 0.05, 0.2, self._chance.uniform(0.0, 0.5)))

    def offset(self) -> float:
        """Return seconds, mostly none: so much later than a deadline another scope ends."""
        return self._chance.choice((0.0, 0.0, 0.0, 0.001, 0.1))

    async def call(self, gateway: GatewaySession, seconds: float) -> None:
        self._calls += 1
        name = f"{self._seed}-{self._calls}"
        operation = self._chance.choice(OPERATIONS)
        how = CALLS[operation]
        if operation == "upload_document" and self._chance.random() < 0.2:
            how = self._upload
        began, lost = time.monotonic(), self._pulse.lost()
        try:
            await self._made(gateway.with_options(deadline=seconds), operation, name, how)
        finally:
            late = time.monotonic() - began - seconds - (self._pulse.lost() - lost)
            assert late < LATEST, late

    async def _made(self, gateway: GatewaySession, operation: str, name: str, how: Any) -> None:
        record: Record = await self._witness.call(gateway, operation, name, how)
        if isinstance(record.error, DeadlineExceededError):
            self._totals["deadlines"] += 1

    async def _upload(self, gateway: GatewaySession) -> Any:
        async def content() -> AsyncIterator[bytes]:
            yield b"x" * 1000
            await asyncio.sleep(0)
            raise self._shared

        return await gateway.aml.upload_document(content())

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        self._left.append(asyncio.create_task(work))

    def some_calls(self, gateway: GatewaySession) -> list[Coroutine[Any, Any, None]]:
        return [self.call(gateway, self.deadline()) for _ in range(self._chance.randrange(1, 5))]

    def after(self, seconds: float, what: Callable[[], object]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, what)


async def alone(now: Round, gateway: GatewaySession) -> None:
    await now.call(gateway, now.deadline())


async def in_a_timeout(now: Round, gateway: GatewaySession) -> None:
    seconds = now.deadline()
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds + now.offset()):
            await now.call(gateway, seconds)


async def in_wait_for(now: Round, gateway: GatewaySession) -> None:
    seconds = now.deadline()
    with suppress(TimeoutError):
        await asyncio.wait_for(now.call(gateway, seconds), seconds + now.offset())


async def in_move_on_after(now: Round, gateway: GatewaySession) -> None:
    seconds = now.deadline()
    with anyio.move_on_after(seconds + now.offset()):
        await now.call(gateway, seconds)
    await asyncio.sleep(0)


async def in_a_task_group_of_anyio(now: Round, gateway: GatewaySession) -> None:
    async with anyio.create_task_group() as group:
        for call in now.some_calls(gateway):
            group.start_soon(awaited, call)
        now.after(now.deadline(), group.cancel_scope.cancel)


async def shielded(now: Round, gateway: GatewaySession) -> None:
    with anyio.move_on_after(now.deadline()), anyio.CancelScope(shield=True):
        await now.call(gateway, now.deadline())


async def in_a_task_group_that_fails(now: Round, gateway: GatewaySession) -> None:
    async def fail() -> None:
        await asyncio.sleep(now.deadline())
        raise ZeroDivisionError

    with suppress(BaseExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for call in now.some_calls(gateway):
                group.create_task(call)
            group.create_task(fail())


async def cancelled(now: Round, gateway: GatewaySession) -> None:
    task = asyncio.create_task(now.call(gateway, now.deadline()))
    for _ in range(2):
        now.after(now.deadline(), task.cancel)
    await asyncio.wait([task])
    assert task.cancelled() or task.exception() is None, task


async def in_a_bulk_run(now: Round, gateway: GatewaySession) -> None:
    """Some items leave a task behind, and some runs are left early."""
    async for _ in results_of(now, gateway, Counter()):
        pass


async def in_runs_with_a_journal(now: Round, gateway: GatewaySession) -> None:
    """What a run has yielded comes back from its journal, whatever its items left behind."""
    with TemporaryDirectory() as folder:
        given = {"journal": Path(folder, "results.db"), "job": "fuzz"}
        made: Counter[int] = Counter()
        first = {result.item: result async for result in results_of(now, gateway, made, **given)}
        before = made.copy()
        again = [result async for result in results_of(now, gateway, made, **given)]
        for result in again:
            if result.item in first and first[result.item].error is None:
                assert result.value == result.item, result
                assert made[result.item] == before[result.item], result


async def results_of(
    now: Round, gateway: GatewaySession, made: Counter[int], **given: Any
) -> AsyncIterator[bulk.BulkResult[int, int]]:
    async def item(number: int) -> int:
        made[number] += 1
        if number % 3 == 0:
            now.later(now.call(gateway, now.deadline()))
        elif number % 3 == 1:
            await now.call(gateway, now.deadline())
        else:
            await asyncio.gather(*now.some_calls(gateway))
        return number

    given["concurrency"] = now._chance.choice((2, 6, "adaptive"))
    enough, came = now._chance.choice((3, 12, 12)), 0
    async with aclosing(bulk.run(item, range(12), **given)) as results:
        async for result in results:
            yield result
            came += 1
            if came == enough:
                break
    assert came == enough


async def awaited(work: Awaitable[None]) -> None:
    await work


CONTEXTS: Final = (
    alone,
    in_a_timeout,
    in_wait_for,
    in_move_on_after,
    in_a_task_group_of_anyio,
    shielded,
    in_a_task_group_that_fails,
    cancelled,
    in_a_bulk_run,
    in_runs_with_a_journal,
)


def sockets() -> list[str]:
    """Return the sockets that this process has open; none where the system does not tell."""
    if sys.platform != "linux":
        return []
    links = []
    for file in FILES.iterdir():
        with suppress(FileNotFoundError):
            links.append(file.readlink().name)
    return [link for link in links if link.startswith("socket:")]


def fuzz(loop: str, seed: int, totals: Counter[str]) -> None:
    """Run one round, with a loop of its own, and look whether a socket is left."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(asyncio.sleep(0))
        before = len(sockets())
        try:
            runner.run(Round(seed, totals).run())
        except BaseException as error:
            error.add_note(f"seed {seed} on {loop}")
            raise
        runner.run(asyncio.sleep(0))  # uvloop closes what was aborted in its next turn
        assert len(sockets()) <= before, (seed, loop)
    totals["rounds"] += 1
