"""A worker: one session and one bulk run for all the chunks that a process has at a time."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
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
from gateway_sdk.fleet._queue import Queue
from gateway_sdk.fleet._work import Work
from gateway_sdk.outcome import Advice
from gateway_sdk.rate_limit import RateLimit
from gateway_sdk.session import GatewaySession

CHUNKS_AT_ONCE: Final = 2
"""While the last calls of a chunk end, the next one has begun."""

_SEEN: Final = """
insert into gateway_fleet.worker values
  (%(id)s, %(queue)s, %(host)s, clock_timestamp(), %(lease)s, %(waits_for)s, %(since)s)
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
    ended: asyncio.Event = field(default_factory=asyncio.Event)


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
        queue: Queue,
        work: Work,
        session: dict[str, Any],
        limit: tuple[str, RateLimit] | None,
        concurrency: Any,
        grace: float,
    ) -> None:
        self._database = Database(queue.address)
        self._queue = queue
        self._work = work
        self._settings: Any = session
        self._limiter = None if limit is None else ReservingLimiter(self._database, *limit)
        self._concurrency = concurrency
        self._grace = grace
        self._id = uuid4()
        self._stack = AsyncExitStack()
        self._stopping = asyncio.Event()
        self._deliveries: set[Delivery] = set()
        self._numbers = count()
        self._items: dict[int, tuple[_Share, int, Any]] = {}  # those that the run has or will have
        self._todo = asyncio.Queue[int | None]()  # None: it is told to stop
        self._timeout: asyncio.Timeout | None = None  # of the run
        self._turn = asyncio.Condition()
        self._is_alone = False
        self._error: BaseException | None = None
        self._alive: psycopg.AsyncConnection[Any] | None = None
        self._is_direct = False
        self._showing = asyncio.Lock()
        self._waits_for: tuple[str, datetime] | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._database)
            gateway = GatewaySession.from_env(**self._settings, rate_limit=self._limiter)
            self._session = await stack.enter_async_context(gateway)
            await self._show_alive()
            self._tasks = [asyncio.create_task(work()) for work in (self._keep, self._run_all)]
            stack.push_async_callback(self._leave)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await to_the_end(self._stack.aclose())

    async def _leave(self) -> None:
        heart, engine = self._tasks
        await asyncio.wait([engine])
        async with self._turn:
            await self._turn.wait_for(lambda: not self._deliveries)
        heart.cancel()
        await asyncio.wait([heart])
        with suppress(TimeoutError, JournalError):
            async with asyncio.timeout(2):
                await self._database.run(_GONE, {"id": self._id})
        await self._hide()

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
        """Do the chunks that the queue delivers, until `stop` is called, or this is cancelled.

        Raises:
            SessionStateError: the worker is not entered.
            GatewayError: no item can be done by this worker, such as with a refused access token
                that cannot be renewed.
        """
        self._check_open()
        taking = asyncio.create_task(
            self._queue.take(self._deliver, self._database, self._stopping, chunks=CHUNKS_AT_ONCE)
        )
        try:
            await asyncio.wait([taking])
        finally:
            self.stop()
            await to_the_end(taking)
        if self._error is not None:
            raise self._error

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
        done = await self._deliver(plan, number)
        if self._error is not None:
            raise self._error
        return done

    async def _deliver(self, plan: str, number: int) -> bool:
        self._check_open()
        if self._stopping.is_set():
            return False
        delivery = await Delivery.claim(
            self._database, self._queue.name, plan, number, lease=self._queue.lease, pid=self._pid
        )
        if delivery is None:
            return await is_done(self._database, plan, number)
        self._deliveries.add(delivery)
        try:
            await self._do(delivery)
        finally:  # what is finished is stored, the rest given back
            done = await to_the_end(self._release(delivery))
        return done

    async def _release(self, delivery: Delivery) -> bool:
        try:
            return await delivery.release()
        finally:
            delivery.is_lost = True  # calls that are left, after a cancellation, send nothing more
            self._deliveries.discard(delivery)
            async with self._turn:
                self._turn.notify_all()

    async def _do(self, delivery: Delivery) -> None:
        todo = await delivery.open()
        if delivery.starts <= DEATHS:
            async with self._turn:
                await self._turn.wait_for(lambda: not self._is_alone)
                share = self._hand_over(delivery, todo)
            await self._finish(share)
            return
        async with self._turn:  # its items kill, perhaps: nothing else runs in this process then
            await self._turn.wait_for(lambda: not self._is_alone)
            self._is_alone = True
        try:
            async with self._turn:
                await self._turn.wait_for(lambda: not self._items)
            todo.sort(key=lambda one: one[0] != delivery.suspect)  # the suspect first
            for n, item in todo:
                if n == delivery.suspect and delivery.suspicion >= DEATHS:
                    await delivery.add(n, _killer(delivery.suspicion))
                    continue
                await delivery.mark_suspect(n)
                await self._finish(self._hand_over(delivery, [(n, item)]))
                if self._stopping.is_set():
                    return
        finally:
            self._is_alone = False
            async with self._turn:
                self._turn.notify_all()

    def _hand_over(self, delivery: Delivery, todo: Sequence[tuple[int, Any]]) -> _Share:
        """Give items to the run."""
        share = _Share(delivery, len(todo))
        if not todo or self._stopping.is_set():
            share.ended.set()
            return share
        for n, item in todo:
            number = next(self._numbers)
            self._items[number] = share, n, item
            self._todo.put_nowait(number)
        return share

    async def _finish(self, share: _Share) -> None:
        try:
            await share.ended.wait()
        finally:
            async with self._turn:
                self._turn.notify_all()

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
                            share.ended.set()
            except OvertakenError:
                pass  # what still is ours is given back, too, and delivered again
            except Exception as error:  # noqa: BLE001 - `run` raises it
                self._timeout = None
                # A time-out of ours says that the grace time is over.
                if not (isinstance(error, TimeoutError) and timeout.expired()):
                    self._error = error
                    self.stop()
            finally:
                self._timeout = None
                self._give_up()

    def _give_up(self) -> None:
        """End what the run had, and has not done."""
        while not self._todo.empty():
            self._todo.get_nowait()
        for share, _, _ in self._items.values():
            share.ended.set()
        self._items.clear()

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
        return await self._work.call(self._session, item)

    def _note(self, progress: Progress) -> None:
        outage = progress.outage
        self._waits_for = None if outage is None else (str(outage.error), outage.since)

    async def _keep(self) -> None:
        try:
            while True:
                await self._beat()
                await asyncio.sleep(self._queue.lease / 4)
        except Exception as error:  # noqa: BLE001 - `run` raises it: the chunks would be lost
            self._error = error
            self.stop()

    async def _beat(self) -> None:
        waits_for, since = self._waits_for or (None, None)
        seen = {"id": self._id, "queue": self._queue.name, "host": socket.gethostname()}
        more = {"lease": self._queue.lease, "waits_for": waits_for, "since": since}
        await self._database.run(_SEEN, {**seen, **more}, quick=True)
        await self._show_alive()
        owned = {delivery.owner: delivery for delivery in self._deliveries}
        if owned:
            kept = await renew(self._database, list(owned), lease=self._queue.lease, pid=self._pid)
            for owner in owned.keys() - kept:
                owned[owner].is_lost = True

    @property
    def _pid(self) -> int | None:
        alive = self._alive
        return alive.info.backend_pid if alive and not alive.closed and self._is_direct else None

    async def _show_alive(self) -> None:
        """Hold a connection: when the process dies, the server knows at once."""
        async with self._showing:
            try:
                if self._alive is None or self._alive.closed:
                    self._alive = await psycopg.AsyncConnection.connect(
                        self._database.address, autocommit=True
                    )
                # A pooler makes up the pid that it tells its clients.
                found = await self._alive.execute("select pg_backend_pid()")
                self._is_direct = await found.fetchone() == (self._alive.info.backend_pid,)
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
