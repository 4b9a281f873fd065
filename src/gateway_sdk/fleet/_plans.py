"""Plans: written whole, in one transaction; read, repeated, deleted."""

import asyncio
import functools
import json
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.rows import class_row, dict_row
from psycopg.sql import SQL

from gateway_sdk import bulk
from gateway_sdk.errors import InvalidArgumentError, JournalError
from gateway_sdk.fleet._database import Connection

Items = Iterable[Any] | AsyncIterable[Any]

_BLOCK: Final = 2000
"""Items whose results are read at a time, at least one chunk."""

_LOCK: Final = "select pg_advisory_xact_lock(hashtext('gateway_fleet:' || %(name)s))"

_KNOWN: Final = "select id, digest, queue, size from gateway_fleet.plan where name = %(name)s"

_PLAN: Final = """
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

_STATUS: Final = """
select p.queue, p.items, sum(c.done)::bigint as done, sum(c.failed)::bigint as failed,
  (select count(*) from gateway_fleet.result r
    where r.plan = p.id and r.state = 'unknown') as unknown,
  (select count(*) from gateway_fleet.result r
    where r.plan = p.id and r.state = 'begun') as begun,
  count(*) as chunks, count(*) filter (where open) as open_chunks,
  count(*) filter (where lease > clock_timestamp()) as working
from gateway_fleet.plan p join gateway_fleet.chunk c on c.plan = p.id
where p.name = %(name)s group by p.id
"""

_WORKERS: Final = """
select waits_for as reason, min(since) as since, count(*) as workers from gateway_fleet.worker
where queue = %(queue)s and seen > clock_timestamp() - lease * interval '1 second'
group by waits_for order by waits_for nulls first
"""

# What may pass is repeated, as `bulk.run(retry_failed=True)` does; with `all`, every failure but
# that of a write which must not be made twice, and may have been done.
_FORGET: Final = """
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
select from held where lease > clock_timestamp()
"""

_SNAPSHOT: Final = "set transaction isolation level repeatable read, read only"
_MAY_BE_IDLE: Final = "set local idle_in_transaction_session_timeout = 0"

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
  where place = r.n %% p.size + 1), r.failure
from gateway_fleet.result r join gateway_fleet.plan p on p.id = r.plan
join gateway_fleet.part a on a.plan = p.id and a.number = r.n / p.size
where p.name = %(name)s and r.state = %(state)s and r.n > %(after)s order by r.n limit 500
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


def no_plan(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"there is no plan {name!r}")


async def write_plan(
    connection: Connection, name: str, items: Items, *, queue: str, size: int, unique: bool,
    dump: Callable[[Any], bytes],
) -> bool:  # fmt: skip
    """Write a plan, whole or not at all; return False if it is there with the same items."""
    args: dict[str, Any] = {"name": name, "queue": queue, "size": size}
    async with connection.transaction():
        await connection.execute(_LOCK, args)
        known = await (await connection.execute(_KNOWN, args)).fetchone()
        if known is not None:
            digest = blake2b(digest_size=16)
            async for text, _ in _chunks(items, known[3], dump):
                digest.update(text)
            if (digest.digest(), queue) != (bytes(known[1]), known[2]):
                raise InvalidArgumentError(
                    f"the plan {name!r} is there with other items, or is of another job or "
                    "version: give another name, or delete it"
                )
            return False
        made = await (await connection.execute(_PLAN, args)).fetchone()
        args["plan"] = (made or (0,))[0]
        digest, count, number = blake2b(digest_size=16), 0, 0
        copying = "copy gateway_fleet.part(plan, number, items) from stdin"
        async with connection.cursor() as cursor, cursor.copy(copying) as copy:
            async for text, length in _chunks(items, size, dump):
                digest.update(text)
                await copy.write_row((args["plan"], number, text.decode()))
                count, number = count + length, number + 1
        if not count:
            raise InvalidArgumentError("a plan must have items: there are none")
        if unique:
            await _refuse_equal(connection, args)
        await connection.execute(_CHUNKS, args)
        await connection.execute(
            "update gateway_fleet.plan set digest = %(digest)s, items = %(count)s"
            " where id = %(plan)s",
            {**args, "digest": digest.digest(), "count": count},
        )
    # Until the server has counted, each claim after a big plan takes 30 times as long.
    await connection.execute("analyze gateway_fleet.chunk, gateway_fleet.part")
    return True


async def _refuse_equal(connection: Connection, args: dict[str, Any]) -> None:
    found = await (await connection.execute(_EQUAL, args)).fetchone()
    if found is not None:
        raise InvalidArgumentError(
            f"item {found[0]} is there twice, and it must not be sent twice: leave one out"
        )


async def read_status(connection: Connection, name: str) -> Status:
    found = await connection.cursor(row_factory=dict_row).execute(_STATUS, {"name": name})
    counts = await found.fetchone()
    if counts is None:
        raise no_plan(name)
    cursor = connection.cursor(row_factory=class_row(Waiting))
    groups = await (await cursor.execute(_WORKERS, {"queue": counts.pop("queue")})).fetchall()
    workers = sum(group.workers for group in groups)
    return Status(**counts, workers=workers, waiting=tuple(g for g in groups if g.reason))


async def is_seen(connection: Connection, queue: str, host: str) -> bool:
    rows = await connection.execute(
        "select from gateway_fleet.worker where queue = %s and host = %s"
        " and seen > clock_timestamp() - lease * interval '1 second' limit 1",
        [queue, host],
    )
    return await rows.fetchone() is not None


async def open_chunks(connection: Connection, name: str) -> list[int]:
    plan = await _find(connection, name)
    rows = await connection.execute(
        "select number from gateway_fleet.chunk where plan = %s and open order by number", [plan[0]]
    )
    return [row[0] for row in await rows.fetchall()]


async def read_items(
    connection: Connection, name: str, state: str
) -> AsyncIterator[dict[str, Any]]:
    """Yield the items in a state, in order: their number, the item, and the failure."""
    await _find(connection, name)
    after = -1
    while True:
        args = {"name": name, "state": state, "after": after}
        rows = await (await connection.execute(_ODD, args)).fetchall()
        for n, item, failure in rows:
            yield {"number": n, "item": item, **(failure or {})}
            after = n
        if not rows:
            return


async def retry_failed(connection: Connection, name: str, *, every: bool) -> int:
    """Forget failures, and open their chunks again; return how many."""
    async with connection.transaction():
        plan = await _locked(connection, name)
        args = {"plan": plan[0], "size": plan[3], "all": every}
        rows = await (await connection.execute(_FORGET, args)).fetchall()
    return sum(row[0] for row in rows)


async def delete_plan(connection: Connection, name: str) -> None:
    async with connection.transaction():
        plan = await _locked(connection, name)
        await connection.execute("delete from gateway_fleet.plan where id = %s", [plan[0]])


async def _find(connection: Connection, name: str) -> Any:
    plan = await (await connection.execute(_KNOWN, {"name": name})).fetchone()
    if plan is None:
        raise no_plan(name)
    return plan


async def _locked(connection: Connection, name: str) -> Any:
    """Return a plan in which no worker works; the lock holds until the transaction ends."""
    await connection.execute(_LOCK, {"name": name})
    plan = await _find(connection, name)
    if await (await connection.execute(_IN_WORK, {"plan": plan[0]})).fetchone() is not None:
        raise JournalError(
            f"a worker has a chunk of {name!r} now: stop the workers, or wait until it is done"
        )
    return plan


async def _chunks(
    items: Items, size: int, dump: Callable[[Any], bytes]
) -> AsyncIterator[tuple[bytes, int]]:
    """Yield JSON arrays, and how many items each holds."""
    texts: list[bytes] = []
    number = 0
    async for item in _each(items):
        try:
            text = dump(item)
            json.loads(text)  # what a worker reads it with
        except (InvalidArgumentError, RecursionError, ValueError) as error:
            reason = str(error) if isinstance(error, InvalidArgumentError) else "it is no JSON"
            raise InvalidArgumentError(f"item {number}: {reason}; nothing was planned") from None
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


async def collect(
    connection: Connection, address: str, name: str, out: Path, *, rates: bool | None, partial: bool
) -> bulk.Exported:
    """Write the results of a plan into a file, from one snapshot: workers may go on meanwhile."""
    async with connection.transaction():
        await connection.execute(_SNAPSHOT)
        status = await read_status(connection, name)
        if not status.is_complete and not partial:
            raise JournalError(
                f"{status.missing + status.begun} of {status.items} items have no result yet: wait"
                " for the workers, or give partial=True"
            )
        plan, _, _, size = await _find(connection, name)
        await connection.execute(_MAY_BE_IDLE)
        exported = await (await connection.execute("select pg_export_snapshot()")).fetchone()
        shared = SQL("set transaction snapshot {}").format(*(exported or ()))

        def write() -> bulk.Exported:
            with psycopg.connect(address) as reading:
                reading.execute(_SNAPSHOT)
                reading.execute(shared)
                reading.execute(_MAY_BE_IDLE)
                rows = functools.partial(_rows_of, reading, plan, size, status.chunks)
                return bulk.write_results(rows, out, rates=rates)

        written = await asyncio.to_thread(write)
    return replace(written, failed=status.items - status.done)


def _rows_of(
    connection: psycopg.Connection[Any], plan: int, size: int, chunks: int
) -> Iterator[Sequence[Any]]:
    step = max(1, _BLOCK // size)
    for low in range(0, chunks, step):
        args = {"plan": plan, "size": size, "low": low, "high": low + step}
        yield from connection.execute(_RESULTS, args)
