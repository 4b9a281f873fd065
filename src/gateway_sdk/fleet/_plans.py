"""Plans: written whole, in one transaction; read, repeated, deleted."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from os import PathLike
from typing import Any, Final, LiteralString

from psycopg import IsolationLevel
from psycopg.rows import class_row, dict_row

from gateway_sdk import bulk
from gateway_sdk.errors import InvalidArgumentError, JournalError
from gateway_sdk.fleet._database import Connection, connected, fetch

Items = Iterable[Any] | AsyncIterable[Any]

_BLOCK: Final = 2000
"""Items whose results are read at a time, at least one chunk."""

_MAY_BE_IDLE: Final = "set local idle_in_transaction_session_timeout = 0"

_LOCK: Final = "select pg_advisory_xact_lock(hashtext('gateway_fleet:' || %(name)s))"

_FIND: Final = "select id, queue, digest, size from gateway_fleet.plan where name = %(name)s"

_NEW: Final = """
insert into gateway_fleet.plan(name, queue, digest, size, items)
values (%(name)s, %(queue)s, '', %(size)s, 0) returning id
"""

_CHUNKS: Final = """
insert into gateway_fleet.chunk(plan, number, queue, total)
select plan, number, %(queue)s, json_array_length(items) from gateway_fleet.part
where plan = %(plan)s
"""

_EQUAL: Final = """
select min(n) from (
  select number::bigint * %(size)s + place - 1 as n, item::text as text
  from gateway_fleet.part, json_array_elements(items) with ordinality as e(item, place)
  where plan = %(plan)s) t
group by text having count(*) > 1 limit 1
"""

_WRITTEN: Final = """
update gateway_fleet.plan set digest = %(digest)s, items = %(items)s where id = %(plan)s
"""

_STATUS: Final = """
select p.items, sum(c.done)::bigint as done, sum(c.failed)::bigint as failed,
  (select count(*) from gateway_fleet.result r
    where r.plan = p.id and r.state = 'unknown') as unknown,
  (select count(*) from gateway_fleet.result r
    where r.plan = p.id and r.state = 'begun') as begun,
  count(*) as chunks, count(*) filter (where open) as open_chunks,
  count(*) filter (where lease > clock_timestamp()) as working
from gateway_fleet.plan p join gateway_fleet.chunk c on c.plan = p.id
where p.id = %(plan)s group by p.id
"""

_WORKERS: Final = """
select waits_for as reason, min(since) as since, count(*) as workers from gateway_fleet.worker
where queue = %(queue)s and seen > clock_timestamp() - lease * interval '1 second'
group by waits_for order by waits_for nulls first
"""

OPEN_CHUNKS: Final = """
select number from gateway_fleet.chunk where plan = %(plan)s and open order by number
"""

DELETE: Final = "delete from gateway_fleet.plan where id = %(plan)s"

# What may pass is repeated, as `bulk.run(retry_failed=True)` does; with `all`, every failure but
# that of a write which must not be made twice, and may have been done.
FORGET: Final = """
with gone as (
  delete from gateway_fleet.result r where r.plan = %(plan)s and r.state = 'failed'
    and (r.failure->>'advice' in ('repeat', 'log_in')
      or %(all)s and not (r.once and r.failure->>'advice' = 'check')) returning r.n),
per as (select (n / %(size)s)::int as number, count(*) as count from gone group by 1)
update gateway_fleet.chunk c set failed = failed - per.count, open = true, starts = 0,
  suspect = null, suspicion = 0
from per where c.plan = %(plan)s and c.number = per.number
returning per.count
"""

# Locked, so that none is claimed in the same moment.
_IN_WORK: Final = """
with held as (select lease from gateway_fleet.chunk where plan = %(plan)s for update)
select 1 from held where lease > clock_timestamp()
"""

# The columns are those of `bulk.export`; `time` is not kept.
_RESULTS: Final = """
select e.item::text, coalesce(r.state, 'missing'), r.value::text, r.failure->>'error',
  r.failure->>'message', r.failure->>'operation', r.failure->>'outcome',
  (r.failure->>'status')::int, r.failure->>'advice', r.attempts, r.elapsed, null
from gateway_fleet.part a
cross join json_array_elements(a.items) with ordinality as e(item, place)
left join gateway_fleet.result r
  on r.plan = a.plan and r.n = a.number::bigint * %(size)s + e.place - 1
where a.plan = %(plan)s and a.number >= %(low)s and a.number < %(high)s
order by a.number, e.place
"""

_ODD: Final = """
select r.n, (select item from json_array_elements(a.items) with ordinality as e(item, place)
  where place = r.n %% %(size)s + 1), r.failure
from gateway_fleet.result r
join gateway_fleet.part a on a.plan = r.plan and a.number = r.n / %(size)s
where r.plan = %(plan)s and r.state = %(state)s order by r.n
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What some workers wait for.

    Attributes:
        reason: Such as the error of the gateway, or a missing login.
        since: When the first of them began to wait.
        workers: How many of them wait for this.
    """

    reason: str
    since: datetime
    workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How far a plan is.

    Attributes:
        items: All items of the plan.
        done: Items with a value.
        failed: Items with an error.
        unknown: Items that may have been carried out and must not be sent again.
        begun: Items whose request, which must not be sent twice, may be under way.
        chunks: All chunks of the plan.
        open_chunks: Chunks in which something is left to do.
        working: Chunks that a worker has now.
        workers: Workers of the job that were seen a moment ago.
        waiting: What they wait for; empty if none waits.
    """

    items: int
    done: int
    failed: int
    unknown: int
    begun: int
    chunks: int
    open_chunks: int
    working: int
    workers: int
    waiting: tuple[Waiting, ...]

    @property
    def missing(self) -> int:
        """Items of which nothing is known."""
        return self.items - self.done - self.failed - self.unknown - self.begun

    @property
    def is_complete(self) -> bool:
        """Whether every item is done, failed or unknown."""
        return not self.open_chunks


class Plan:
    """A plan in the database, in a transaction."""

    def __init__(self, connection: Connection, row: Any) -> None:
        number, self.queue, self.digest, self.size = row
        self._connection = connection
        self._args = {"plan": number, "queue": self.queue, "size": self.size}

    async def fetch(self, sql: LiteralString, **more: Any) -> list[Any]:
        return await fetch(self._connection, sql, {**self._args, **more})

    async def status(self) -> Status:
        cursor = self._connection.cursor(row_factory=dict_row)
        (counts,) = await (await cursor.execute(_STATUS, self._args)).fetchall()
        groups = self._connection.cursor(row_factory=class_row(Waiting))
        waiting = await (await groups.execute(_WORKERS, self._args)).fetchall()
        workers = sum(group.workers for group in waiting)
        return Status(**counts, workers=workers, waiting=tuple(g for g in waiting if g.reason))

    async def in_state(self, state: str) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the items in a state, in order: their number, the item, and the failure."""
        async with self._connection.cursor("items") as cursor:
            await cursor.execute(_ODD, {**self._args, "state": state})
            async for n, item, failure in cursor:
                yield {"number": n, "item": item, **(failure or {})}

    async def collect(
        self, out: str | PathLike[str], *, rates: bool | None, partial: bool
    ) -> bulk.Exported:
        status = await self.status()
        if not status.is_complete and not partial:
            raise JournalError(
                f"{status.missing + status.begun} of {status.items} items have no result yet: wait"
                " for the workers, or give partial=True"
            )
        loop = asyncio.get_running_loop()

        def rows() -> Iterator[Any]:  # in the thread that writes
            step = max(1, _BLOCK // self.size)
            for low in range(0, status.chunks, step):
                reading = self.fetch(_RESULTS, low=low, high=low + step)
                yield from asyncio.run_coroutine_threadsafe(reading, loop).result()

        written = await asyncio.to_thread(bulk.write_results, rows, out, rates=rates)
        return replace(written, failed=status.items - status.done)


async def _find(connection: Connection, name: str) -> Plan | None:
    rows = await fetch(connection, _FIND, {"name": name})
    return Plan(connection, rows[0]) if rows else None


@asynccontextmanager
async def opened(address: str, name: str, *, is_read: bool = True) -> AsyncGenerator[Plan]:
    """Find a plan: as it is at one moment, whatever workers do meanwhile, or to change it."""
    async with connected(address) as connection:
        if is_read:
            await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        async with connection.transaction():
            await connection.execute(_MAY_BE_IDLE)
            plan = await _find(connection, name)
            if plan is None:
                raise InvalidArgumentError(f"there is no plan {name!r}")
            if not is_read and await plan.fetch(_IN_WORK):
                raise JournalError(
                    f"a worker has a chunk of {name!r} now: stop the workers, or wait until it is "
                    "done"
                )
            yield plan


async def write_plan(
    address: str, name: str, items: Items, *, queue: str, size: int, unique: bool,
    dump: Callable[[Any], bytes],
) -> bool:  # fmt: skip
    """Write a plan, whole or not at all; return False if it is there with the same items."""
    args: dict[str, Any] = {"name": name, "queue": queue, "size": size}
    async with connected(address) as connection, connection.transaction():
        await connection.execute(_MAY_BE_IDLE)
        await connection.execute(_LOCK, args)
        known = await _find(connection, name)
        digest = blake2b(digest_size=16)
        if known is not None:
            async for text, _ in _chunks(items, known.size, dump):
                digest.update(text)
            if (digest.digest(), queue) != (bytes(known.digest), known.queue):
                raise InvalidArgumentError(
                    f"the plan {name!r} is there with other items, or is of another job or "
                    "version: give another name, or delete it"
                )
            return False
        ((args["plan"],),) = await fetch(connection, _NEW, args)
        count = number = 0
        copying = "copy gateway_fleet.part(plan, number, items) from stdin"
        async with connection.cursor() as cursor, cursor.copy(copying) as copy:
            async for text, length in _chunks(items, size, dump):
                digest.update(text)
                await copy.write_row((args["plan"], number, text.decode()))
                count, number = count + length, number + 1
        if not count:
            raise InvalidArgumentError("a plan must have items: there are none")
        if unique and (equal := await fetch(connection, _EQUAL, args)):
            raise InvalidArgumentError(
                f"item {equal[0][0]} is there twice, and it must not be sent twice: leave one out"
            )
        await connection.execute(_CHUNKS, args)
        written = {**args, "digest": digest.digest(), "items": count}
        await connection.execute(_WRITTEN, written)
        # Until the server has counted, each claim after a big plan takes 30 times as long.
        await connection.execute("analyze gateway_fleet.chunk, gateway_fleet.part")
        return True


async def _chunks(
    items: Items, size: int, dump: Callable[[Any], bytes]
) -> AsyncIterator[tuple[bytes, int]]:
    """Yield JSON arrays, and how many items each holds."""
    texts: list[bytes] = []
    number = 0
    async for item in _each(items):
        try:
            text = dump(item)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"item {number}: {error}; nothing was planned") from None
        texts.append(text)
        number += 1
        if len(texts) == size:
            yield b"[" + b",".join(texts) + b"]", size
            texts = []
    if texts:
        yield b"[" + b",".join(texts) + b"]", len(texts)


async def _each(items: Items) -> AsyncIterator[Any]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
