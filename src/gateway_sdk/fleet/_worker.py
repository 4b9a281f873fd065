"""A worker: one session and one bulk run for all the chunks that a process has at a time."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from itertools import count
from typing import Any, Final, Self
from uuid import uuid4

from gateway_sdk import bulk
from gateway_sdk._waiting import to_the_end
from gateway_sdk.bulk import Outage, Progress
from gateway_sdk.errors import JournalError, SessionStateError
from gateway_sdk.fleet._chunk import Chunk, ChunkLedger, OvertakenError, is_done
from gateway_sdk.fleet._database import Database, ReservingLimiter
from gateway_sdk.rate_limit import Limiter, RateLimit
from gateway_sdk.session import GatewaySession

_CHUNKS_AT_ONCE: Final = 2
"""While the last calls of a chunk end, the next one has begun."""

_LOOK: Final = 1.0
"""Seconds after which a worker without a chunk looks for one again."""

_LAST: Final = 2.0
"""Seconds in which a worker that ends waits for a database that is away, if it has no chunk."""

# In one statement: a sign of life, and the leases. It need not wait for the disk.
_BEAT: Final = """
with seen as (
  insert into gateway_fleet.worker
  select %(id)s, %(queue)s, %(host)s, clock_timestamp(), %(lease)s, %(waits_for)s,
    %(since)s::timestamptz
  from set_config('synchronous_commit', 'off', true)
  on conflict (id) do update set seen = excluded.seen, waits_for = excluded.waits_for,
    since = excluded.since)
update gateway_fleet.chunk set lease = clock_timestamp() + %(lease)s * interval '1 second',
  renewed = clock_timestamp(), pid = (select pid from pg_stat_activity where pid = %(pid)s)
where open and owner = any(%(owners)s::uuid[]) returning owner
"""

_GONE: Final = """
delete from gateway_fleet.worker
where id = %(id)s or seen < clock_timestamp() - interval '1 day'
"""


class FunctionExitError(Exception):
    """A job's function raised what would end its worker, such as `SystemExit`."""


class Worker:
    """Does chunks of a job, in the event loop in which it is entered; made by `Job.worker`."""

    def __init__(
        self,
        *,
        address: str,
        queue: str,
        work: Callable[[GatewaySession, Any], Awaitable[Any]],
        session: dict[str, Any],
        limit: tuple[str, RateLimit] | None,
        concurrency: Any,
        lease: float,
        grace: float,
    ) -> None:
        self._address = address
        self._database = Database(address)
        self._queue_name = queue
        self._work = work
        self._settings: Any = session
        self._limit = limit
        self._concurrency = concurrency
        self._lease = lease
        self._grace = grace
        self._id = uuid4()
        self._stack = AsyncExitStack()
        self._stopping = asyncio.Event()
        self._chunks: set[Chunk] = set()
        self._queue = asyncio.Queue[Chunk | None]()  # None: it is told to stop
        self._suspected: Chunk | None = None
        self._numbers = count()
        self._items: dict[int, tuple[Chunk, int, Any]] = {}  # those that the run has
        self._timeout: asyncio.Timeout | None = None  # of the run
        self._behind = 0, -1  # the chunk that was given back last: those behind it come first
        self._error: BaseException | None = None
        self._outage: Outage | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._database)
            limiter: Limiter | None = None
            if self._limit is not None:  # permits do not wait while results are written
                database = await stack.enter_async_context(Database(self._address))
                limiter = ReservingLimiter(database, *self._limit)
            gateway = GatewaySession.from_env(**self._settings, rate_limit=limiter)
            self._session = await stack.enter_async_context(gateway)
            await self._beat()
            self._heart = asyncio.create_task(self._supervised(self._keep()))
            self._engine = asyncio.create_task(self._supervised(self._make_calls()))
            stack.push_async_callback(self._leave)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await to_the_end(self._stack.aclose())

    async def _leave(self) -> None:
        await asyncio.wait([self._engine])
        while self._chunks:  # those of `run_chunk` are given back
            await next(iter(self._chunks)).given_back.wait()
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

    def stop(self) -> None:
        """End soon: calls in flight may end, for the grace time; the rest is given back.

        From another thread: `loop.call_soon_threadsafe(worker.stop)`.
        """
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._queue.put_nowait(None)
        if self._timeout is not None:
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
            asyncio.create_task(self._supervised(self._take())) for _ in range(_CHUNKS_AT_ONCE)
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
            if await self._do_chunk() is None:
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
        done = await self._do_chunk((plan, number))
        if self._error is not None:
            raise self._error
        return await is_done(self._database, plan, number) if done is None else done

    async def _do_chunk(self, name: tuple[str, int] | None = None) -> bool | None:
        """Do a chunk, or the next one; return whether it is done, None if this has no chunk."""
        if self._stopping.is_set():
            return False
        chunk = await Chunk.claim(
            self._database, self._queue_name, name, lease=self._lease, behind=self._behind
        )
        if chunk is None:
            return None
        self._chunks.add(chunk)
        try:
            await chunk.open()
            if chunk.todo and not self._stopping.is_set():
                self._queue.put_nowait(chunk)
                await chunk.ended.wait()
        finally:  # what has ended is stored, the rest given back
            done = await to_the_end(self._release(chunk))
            if not done:
                self._behind = chunk.place
        return done

    async def _release(self, chunk: Chunk) -> bool:
        try:
            return await chunk.release()
        finally:
            chunk.is_lost = True  # calls that are left, after a cancellation, send nothing more
            self._chunks.discard(chunk)
            chunk.given_back.set()

    async def _make_calls(self) -> None:
        """Make the calls of all chunks in one run, and those of a suspected chunk one by one."""
        try:
            while not self._stopping.is_set():
                await self._run(self._next_items(), self._concurrency)
                if self._suspected is not None:
                    # Its items kill, perhaps: nothing else runs in this process then.
                    await self._run(self._items_of(self._suspected), 1)
                    self._suspected = None
        finally:
            self._give_up()

    async def _run(self, numbers: AsyncGenerator[int, None], concurrency: Any) -> None:
        run = bulk.run(
            self._call, numbers, journal=ChunkLedger(self._items), concurrency=concurrency,
            patience=None, on_progress=self._note,
        )  # fmt: skip
        timeout = asyncio.timeout(None)
        try:
            async with aclosing(run), timeout:
                self._timeout = timeout
                async for result in run:
                    chunk, _, _ = self._items.pop(result.item)
                    chunk.item_ended()
        except (OvertakenError, TimeoutError):  # or the grace time is over
            self._give_up()  # what still is ours is given back, too, and done again
        finally:
            self._timeout = None

    def _give_up(self) -> None:
        """End what the run has not done of all chunks."""
        self._items.clear()
        for chunk in self._chunks:
            chunk.ended.set()

    async def _next_items(self) -> AsyncGenerator[int, None]:
        """Yield the items of one chunk after the other, until a suspected one comes."""
        while (chunk := await self._queue.get()) is not None:
            if chunk.is_suspected:
                self._suspected = chunk
                return
            async for number in self._items_of(chunk):
                yield number

    async def _items_of(self, chunk: Chunk) -> AsyncGenerator[int, None]:
        for n, item in chunk.todo:
            # Given back while it was queued, when the run before this one ended: not ours any more.
            if self._stopping.is_set() or chunk.ended.is_set():
                return
            number = next(self._numbers)
            self._items[number] = chunk, n, item
            yield number

    async def _call(self, number: int) -> Any:
        chunk, n, item = self._items[number]
        if chunk.is_lost:
            raise OvertakenError("not sent: the chunk belongs to another worker now")
        if chunk.is_suspected:
            await chunk.suspect(n)
        try:
            return await self._work(self._session, item)
        except (Exception, asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit would end each worker in turn
            raise FunctionExitError(type(error).__name__) from None

    def _note(self, progress: Progress) -> None:
        self._outage = progress.outage

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 4)
            await self._beat()

    async def _beat(self) -> None:
        owned = {chunk.owner: chunk for chunk in self._chunks}
        args = {
            "id": self._id, "queue": self._queue_name, "host": socket.gethostname(),
            "lease": self._lease, "owners": list(owned),
            "waits_for": self._outage and str(self._outage.error),
            "since": self._outage and self._outage.since,
        }  # fmt: skip
        kept = await self._database.run(_BEAT, args)
        for owner in owned.keys() - {row[0] for row in kept}:
            owned[owner].is_lost = True

    def _check_open(self) -> None:
        if not hasattr(self, "_session"):
            raise SessionStateError("the worker is not open: use `async with job.worker()`")
