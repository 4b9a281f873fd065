"""A worker: one session and one bulk run for all the chunks that a process has at a time."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Any, Final, Self
from uuid import uuid4

import psycopg

from gateway_sdk import bulk
from gateway_sdk._waiting import to_the_end
from gateway_sdk.bulk import Entry, Failure, Progress, State
from gateway_sdk.errors import GatewayError, JournalError, SessionStateError
from gateway_sdk.fleet._database import AWAY, Database, ReservingLimiter
from gateway_sdk.fleet._delivery import DEATHS, Delivery, OvertakenError, is_done, renew
from gateway_sdk.fleet._work import Work
from gateway_sdk.outcome import Advice
from gateway_sdk.rate_limit import RateLimit
from gateway_sdk.session import GatewaySession

CHUNKS_AT_ONCE: Final = 2
"""While the last calls of a chunk end, the next one has begun."""

_LOOK: Final = 1.0
"""Seconds after which a worker without a chunk looks for one again."""

_LAST: Final = 2.0
"""Seconds in which a worker that ends waits for a database that is away, if it has no chunk."""

_SEEN: Final = """
insert into gateway_fleet.worker
select %(id)s, %(queue)s, %(host)s, clock_timestamp(), %(lease)s, %(waits_for)s,
  %(since)s::timestamptz
from set_config('synchronous_commit', 'off', true)
on conflict (id) do update set seen = excluded.seen, waits_for = excluded.waits_for,
  since = excluded.since
"""

_GONE: Final = """
delete from gateway_fleet.worker
where id = %(id)s or seen < clock_timestamp() - interval '1 day'
"""


@dataclass(slots=True, eq=False)
class _Share:
    """Some items of a delivery, which are done together."""

    delivery: Delivery
    left: int


class FunctionExitError(Exception):
    """A job's function raised what would end its worker, such as `SystemExit`."""


class _WorkerLedger:
    """Passes what the run writes to the delivery of each item."""

    def __init__(self, find: Callable[[int], tuple[Delivery, int]]) -> None:
        self._find = find

    async def open(self) -> None: ...

    def has(self, key: bytes) -> bool:
        del key
        return False  # only items of which nothing is known are begun

    async def read(self, keys: Sequence[bytes]) -> Sequence[Entry]:
        raise NotImplementedError

    async def write(self, entries: Sequence[Entry]) -> None:
        overtaken: OvertakenError | None = None
        for entry in entries:
            delivery, n = self._find(int(entry.item or ""))
            try:
                await delivery.add(n, entry)
            except OvertakenError as error:  # the others are stored all the same
                overtaken = error
        if overtaken is not None:
            raise overtaken

    async def aclose(self) -> None: ...


class Worker:
    """Does chunks of a job, in the event loop in which it is entered; made by `Job.worker`."""

    def __init__(
        self,
        *,
        address: str,
        queue: str,
        work: Work,
        session: dict[str, Any],
        limit: tuple[str, RateLimit] | None,
        concurrency: Any,
        lease: float,
        grace: float,
    ) -> None:
        self._database = Database(address)
        self._queue = queue
        self._work = work
        self._settings: Any = session
        self._limiter = None if limit is None else ReservingLimiter(self._database, *limit)
        self._concurrency = concurrency
        self._lease = lease
        self._grace = grace
        self._id = uuid4()
        self._stack = AsyncExitStack()
        self._stopping = asyncio.Event()
        self._deliveries: set[Delivery] = set()
        self._numbers = count()
        self._items: dict[int, tuple[_Share, int, Any]] = {}  # those that the run has or will have
        self._todo = asyncio.Queue[int | None]()  # None: it is told to stop
        self._timeout: asyncio.Timeout | None = None  # of the run
        self._changed = asyncio.Event()
        self._is_alone = False
        self._behind = 0, -1  # the chunk that was given back last: those behind it come first
        self._error: BaseException | None = None
        self._alive: psycopg.AsyncConnection[Any] | None = None
        self._waits_for: tuple[str, datetime] | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._database)
            gateway = GatewaySession.from_env(**self._settings, rate_limit=self._limiter)
            self._session = await stack.enter_async_context(gateway)
            stack.push_async_callback(self._hide)
            await self._beat()
            self._heart = asyncio.create_task(self._supervised(self._keep()))
            self._engine = asyncio.create_task(self._supervised(self._run_all()))
            stack.push_async_callback(self._leave)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await to_the_end(self._stack.aclose())

    async def _leave(self) -> None:
        await asyncio.wait([self._engine])
        await self._until(lambda: not self._deliveries)
        self._heart.cancel()
        await asyncio.wait([self._heart])
        with suppress(TimeoutError, JournalError):
            async with asyncio.timeout(_LAST):
                await self._database.run(_GONE, {"id": self._id})

    async def _supervised(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what a worker cannot be without; `run` raises its error."""
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, nobody else would see it
            self._error = self._error or error
        finally:
            self.stop()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._changed.clear()
            await self._changed.wait()

    def stop(self) -> None:
        """End soon: calls in flight may end, for the grace time; the rest is given back.

        From another thread: `loop.call_soon_threadsafe(worker.stop)`.
        """
        is_first = not self._stopping.is_set()
        self._stopping.set()
        self._todo.put_nowait(None)
        if is_first and self._timeout is not None:
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._grace)

    async def run(self) -> None:
        """Do one chunk after the other, until `stop` is called, or this is cancelled.

        Raises:
            SessionStateError: the worker is not entered.
            GatewayError: no item can be done by this worker, such as with a refused access token
                that cannot be renewed.
        """
        self._check_open()
        taking = [
            asyncio.create_task(self._supervised(self._take())) for _ in range(CHUNKS_AT_ONCE)
        ]
        try:
            await self._stopping.wait()
        finally:
            self.stop()
            await to_the_end(self._end_taking(taking))
        if self._error is not None:
            raise self._error

    async def _take(self) -> None:
        while not self._stopping.is_set():
            if await self._deliver() is None:
                self._behind = 0, -1
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK):
                        await self._stopping.wait()

    async def _end_taking(self, taking: Sequence[asyncio.Task[None]]) -> None:
        await asyncio.wait([self._engine])  # calls in flight may end
        await asyncio.wait(taking, timeout=_LAST)  # a chunk is not cancelled while it is taken
        for task in taking:
            task.cancel()
        await asyncio.wait(taking)

    async def run_chunk(self, plan: str, number: int) -> bool:
        """Do what is left of a chunk; for other queues. It may be repeated, and run twice at once.

        Args:
            plan: The name of the plan.
            number: The number of the chunk, from 0.

        Returns:
            Whether nothing is left to do, also because another worker has done it, or the plan
            was deleted. False: deliver it again later; another worker has it, or this one ends.

        Raises:
            SessionStateError: the worker is not entered.
            GatewayError: no item can be done by this worker.
        """
        self._check_open()
        done = await self._deliver((plan, number))
        if self._error is not None:
            raise self._error
        return await is_done(self._database, plan, number) if done is None else done

    async def _deliver(self, chunk: tuple[str, int] | None = None) -> bool | None:
        """Do a chunk, or the next one; return whether it is done, None if this has no chunk."""
        if self._stopping.is_set():
            return False
        delivery = await Delivery.claim(
            self._database,
            self._queue,
            chunk,
            lease=self._lease,
            pid=self._pid,
            behind=self._behind,
        )
        if delivery is None:
            return None
        self._deliveries.add(delivery)
        try:
            await self._do(delivery)
        finally:  # what is finished is stored, the rest given back
            done = await to_the_end(self._release(delivery))
            if not done:
                self._behind = delivery.place
        return done

    async def _release(self, delivery: Delivery) -> bool:
        try:
            return await delivery.release()
        finally:
            delivery.is_lost = True  # calls that are left, after a cancellation, send nothing more
            self._deliveries.discard(delivery)
            self._changed.set()

    async def _do(self, delivery: Delivery) -> None:
        todo = await delivery.open()
        await self._until(lambda: not self._is_alone)
        if delivery.starts <= DEATHS:
            await self._do_together(delivery, todo)
            return
        self._is_alone = True  # its items kill, perhaps: nothing else runs in this process then
        try:
            await self._until(lambda: not self._items)
            todo.sort(key=lambda one: one[0] != delivery.suspect)  # the suspect first
            for n, item in todo:
                if n == delivery.suspect and delivery.suspicion >= DEATHS:
                    await delivery.add(n, _killer(delivery.suspicion))
                    continue
                await delivery.mark_suspect(n)
                await self._do_together(delivery, [(n, item)])
        finally:
            self._is_alone = False
            self._changed.set()

    async def _do_together(self, delivery: Delivery, todo: Sequence[tuple[int, Any]]) -> None:
        """Give items to the run, and wait until it has done them, or ended."""
        if self._stopping.is_set():
            return
        share = _Share(delivery, len(todo))
        for n, item in todo:
            number = next(self._numbers)
            self._items[number] = share, n, item
            self._todo.put_nowait(number)
        await self._until(lambda: not share.left)

    async def _run_all(self) -> None:
        """Make the calls of all deliveries, in one run at a time."""
        while not self._stopping.is_set():
            ledger = _WorkerLedger(self._place_of)
            run = bulk.run(
                self._call, self._source(), journal=ledger, concurrency=self._concurrency,
                patience=None, on_progress=self._note,
            )  # fmt: skip
            timeout = asyncio.timeout(None)
            try:
                async with aclosing(run), timeout:
                    self._timeout = timeout
                    async for result in run:
                        share, _, _ = self._items.pop(result.item)
                        share.left -= 1
                        if not share.left:
                            self._changed.set()
            except (OvertakenError, TimeoutError):  # or the grace time is over
                pass  # what still is ours is given back, too, and delivered again
            finally:
                self._timeout = None
                self._give_up()

    def _give_up(self) -> None:
        """End what the run had, and has not done."""
        while not self._todo.empty():
            self._todo.get_nowait()
        for share, _, _ in self._items.values():
            share.left = 0
        self._items.clear()
        self._changed.set()

    async def _source(self) -> AsyncGenerator[int, None]:
        while (number := await self._todo.get()) is not None and not self._stopping.is_set():
            yield number

    def _place_of(self, number: int) -> tuple[Delivery, int]:
        share, n, _ = self._items[number]
        return share.delivery, n

    async def _call(self, number: int) -> Any:
        share, _, item = self._items[number]
        if share.delivery.is_lost:
            raise OvertakenError("not sent: the chunk belongs to another worker now")
        try:
            return await self._work.call(self._session, item)
        except (Exception, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit would end each worker in turn
            raise FunctionExitError(type(error).__name__) from None

    def _note(self, progress: Progress) -> None:
        outage = progress.outage
        self._waits_for = None if outage is None else (str(outage.error), outage.since)

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 4)
            await self._beat()

    async def _beat(self) -> None:
        waits_for, since = self._waits_for or (None, None)
        seen = {"id": self._id, "queue": self._queue, "host": socket.gethostname()}
        more = {"lease": self._lease, "waits_for": waits_for, "since": since}
        await self._database.run(_SEEN, {**seen, **more})
        await self._show_alive()
        owned = {delivery.owner: delivery for delivery in self._deliveries}
        if owned:
            kept = await renew(self._database, list(owned), lease=self._lease, pid=self._pid)
            for owner in owned.keys() - kept:
                owned[owner].is_lost = True

    @property
    def _pid(self) -> int | None:
        alive = self._alive
        return alive.info.backend_pid if alive and not alive.closed else None

    async def _show_alive(self) -> None:
        """Hold a connection: when the process dies, the server knows at once."""
        try:
            if self._alive is None or self._alive.closed:
                self._alive = await psycopg.AsyncConnection.connect(
                    self._database.address, autocommit=True
                )
            await self._alive.execute("select")
        except AWAY:
            await self._hide()

    async def _hide(self) -> None:
        alive, self._alive = self._alive, None
        if alive is not None:
            await alive.close()

    def _check_open(self) -> None:
        if not hasattr(self, "_session"):
            raise SessionStateError("the worker is not open: use `async with job.worker()`")


def _killer(deaths: int) -> Entry:
    message = f"its worker ended {deaths} times while it did this item alone"
    failure = Failure(
        error=GatewayError.__name__, message=message, outcome="UNKNOWN", advice=Advice.CHECK
    )
    return Entry(key=b"", state=State.FAILED, failure=failure)
