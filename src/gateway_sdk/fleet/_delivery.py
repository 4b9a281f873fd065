"""One delivery of a chunk: who owns it, what is left to do, and what is stored of it."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final, Self
from uuid import UUID, uuid4

from gateway_sdk.bulk import Entry, Failure, State
from gateway_sdk.errors import JournalError
from gateway_sdk.fleet._database import Database
from gateway_sdk.outcome import Advice

DEATHS: Final = 2
"""A chunk or an item whose worker died so often is suspected."""

_ROWS: Final = 100
_SECONDS: Final = 0.2
"""Results are stored when there are so many, or after this time: a kill repeats some reads."""

# The table of chunks is the queue. A delivery is dead when its lease is over, or, at once, when its
# worker's own connection has left the server; not when the server was started since, which ends all
# connections. What was no connection of the server when it was told, such as one of a pooler or of
# before a restart, says nothing. A claim whose answer was lost finds its own chunk.
_CLAIM: Final = """
with found as (
  select plan, number from gateway_fleet.chunk
  where queue = %(queue)s and open and {}
    and (lease is null or lease < clock_timestamp() or owner = %(owner)s
      or (renewed > pg_postmaster_start_time()
        and pid <> all (array(select pid from pg_stat_activity))))
  order by plan, number limit 1 for update skip locked)
update gateway_fleet.chunk c set owner = %(owner)s, starts = starts + 1,
  pid = (select pid from pg_stat_activity where pid = %(pid)s),
  lease = clock_timestamp() + %(lease)s * interval '1 second', renewed = clock_timestamp()
from found, gateway_fleet.plan, gateway_fleet.part
where (c.plan, c.number) = (found.plan, found.number) and plan.id = found.plan
  and (part.plan, part.number) = (found.plan, found.number)
returning plan.id, plan.size, c.number, part.items, c.starts, c.suspect, c.suspicion
"""

_CLAIM_NEXT: Final = _CLAIM.format("(plan, number) > (%(plan)s::int, %(number)s::int)")

_CLAIM_ONE: Final = _CLAIM.format(
    "plan = (select id from gateway_fleet.plan where name = %(name)s) and number = %(number)s"
)

_IS_OPEN: Final = """
select c.open from gateway_fleet.chunk c join gateway_fleet.plan p on p.id = c.plan
where p.name = %(name)s and c.number = %(number)s
"""

_RENEW: Final = """
update gateway_fleet.chunk set lease = clock_timestamp() + %(lease)s * interval '1 second',
  renewed = clock_timestamp(), pid = (select pid from pg_stat_activity where pid = %(pid)s)
from set_config('synchronous_commit', 'off', true)
where open and owner = any(%(owners)s) returning owner
"""

# What a dead delivery had begun may have been carried out: it becomes unknown.
_KNOWN: Final = """
with died as (
  update gateway_fleet.result set state = 'unknown', failure = %(failure)s
  where plan = %(plan)s and n >= %(low)s and n < %(high)s and state = 'begun'
    and owner <> %(owner)s)
select n from gateway_fleet.result where plan = %(plan)s and n >= %(low)s and n < %(high)s
"""

# The counters rise by the rows that were really inserted, so the statement may be repeated. Who
# was overtaken may still tell how his own begun calls ended.
_WRITE: Final = """
with mine as (
  select from gateway_fleet.chunk
  where plan = %(plan)s and number = %(number)s and owner = %(owner)s for update),
new as (
  insert into gateway_fleet.result as r
  select %(plan)s, t.n, t.state, t.once, t.value::json, t.failure::json, t.attempts,
    t.elapsed, %(owner)s
  from unnest(%(n)b::bigint[], %(state)b::text[], %(once)b::bool[], %(value)b::text[],
    %(failure)b::text[], %(attempts)b::int[], %(elapsed)b::float8[])
    as t(n, state, once, value, failure, attempts, elapsed)
  where exists (select from mine) or (t.state <> 'begun' and exists (
    select from gateway_fleet.result o
    where o.plan = %(plan)s and o.n = t.n and o.owner = %(owner)s))
  on conflict (plan, n) do update set state = excluded.state, value = excluded.value,
    failure = excluded.failure, attempts = excluded.attempts, elapsed = excluded.elapsed
    where r.owner = excluded.owner and r.state in ('begun', 'unknown')
      and not (r.state = 'unknown' and excluded.state = 'begun')
  returning state),
counted as (
  update gateway_fleet.chunk set
    done = done + (select count(*) from new where state = 'done'),
    failed = failed + (select count(*) from new where state = 'failed')
  where plan = %(plan)s and number = %(number)s)
select count(*) from mine
"""

_FORGET: Final = """
delete from gateway_fleet.result
where plan = %(plan)s and n = any(%(n)s) and owner = %(owner)s and state = 'begun'
"""

_SUSPECT: Final = """
update gateway_fleet.chunk set suspicion = %(suspicion)s, suspect = %(n)s
where plan = %(plan)s and number = %(number)s and owner = %(owner)s
"""

# Closed only if every item has ended: the counters and the rows are compared in one statement.
_RELEASE: Final = """
update gateway_fleet.chunk set owner = null, lease = null, starts = 0, suspect = null,
  suspicion = 0, open = done + failed + (
    select count(*) from gateway_fleet.result r
    where r.plan = %(plan)s and r.state = 'unknown' and r.n >= %(low)s and r.n < %(high)s
  ) < total
where plan = %(plan)s and number = %(number)s and owner = %(owner)s returning open
"""

_DIED: Final = Failure(
    error="ReplyLostError", message="its worker ended before the call did", outcome="UNKNOWN",
    advice=Advice.CHECK,
)  # fmt: skip


class OvertakenError(JournalError):
    """The chunk belongs to another worker now: nothing is sent for it here."""


class Delivery:
    """A chunk that this worker owns; its lease has to be renewed."""

    def __init__(self, database: Database, owner: UUID, row: Sequence[Any]) -> None:
        plan, size, number, self._items, self.starts, self.suspect, self.suspicion = row
        self.owner = owner
        self.place = plan, number
        self.is_lost = False
        self._database = database
        self._args: dict[str, Any] = {
            "plan": plan, "number": number, "owner": owner,
            "low": number * size, "high": (number + 1) * size,
        }  # fmt: skip
        self._rows: list[tuple[int, Entry]] = []
        self._storing = asyncio.Lock()
        self._timer: asyncio.Task[None] | None = None

    @classmethod
    async def claim(
        cls, database: Database, queue: str, chunk: tuple[str, int] | None = None, *,
        lease: float, pid: int | None, behind: tuple[int, int] = (0, -1),
    ) -> Self | None:  # fmt: skip
        """Take a chunk, or the next one; None if it is done, another has it, or there is none."""
        owner = uuid4()
        args = {"queue": queue, "owner": owner, "lease": lease, "pid": pid}
        if chunk is None:
            rows = await database.run(_CLAIM_NEXT, {**args, "plan": behind[0], "number": behind[1]})
        else:
            rows = await database.run(_CLAIM_ONE, {**args, "name": chunk[0], "number": chunk[1]})
        return cls(database, owner, rows[0]) if rows else None

    async def open(self) -> list[tuple[int, Any]]:
        """Return the items of which nothing is known, with their numbers."""
        rows = await self._database.run(_KNOWN, {**self._args, "failure": _json(_DIED)})
        known = {row[0] for row in rows}
        numbered = enumerate(self._items, self._args["low"])
        return [(n, item) for n, item in numbered if n not in known]

    async def add(self, n: int, entry: Entry) -> None:
        """Store what became of an item, soon or at once."""
        if entry.state is State.INTERRUPTED:
            await self._database.run(_FORGET, {**self._args, "n": [n]})
            return
        if self.is_lost and not entry.once:
            return  # another delivery finds it out
        self._rows.append((n, entry))
        if entry.once or len(self._rows) >= _ROWS:
            await self.store()
            if self.is_lost and entry.state is State.BEGUN:
                raise OvertakenError("not sent: the chunk belongs to another worker now")
        elif self._timer is None:
            self._timer = asyncio.create_task(self._store_soon())

    async def _store_soon(self) -> None:
        await asyncio.sleep(_SECONDS)
        self._timer = None
        await self.store()

    async def store(self) -> None:
        async with self._storing:
            rows = self._rows[:]  # kept until they are stored: whoever stores may be cancelled
            if not rows:
                return
            failures = [entry.failure and _json(entry.failure) for _, entry in rows]
            found = await self._database.run(
                _WRITE,
                {
                    **self._args,
                    "n": [n for n, _ in rows],
                    "state": [entry.state.value for _, entry in rows],
                    "once": [entry.once for _, entry in rows],
                    "value": [entry.value for _, entry in rows],
                    "failure": failures,
                    "attempts": [entry.attempts for _, entry in rows],
                    "elapsed": [entry.elapsed for _, entry in rows],
                },
            )
            self.is_lost = self.is_lost or not found[0][0]
            del self._rows[: len(rows)]

    async def mark_suspect(self, n: int) -> None:
        """Note that an item is done alone: if the worker dies now, it is this item."""
        suspicion = self.suspicion + 1 if n == self.suspect else 1
        await self._database.run(_SUSPECT, {**self._args, "n": n, "suspicion": suspicion})

    async def release(self) -> bool:
        """Store what is left, give the chunk back, and return whether it is done."""
        if self._timer is not None:
            self._timer.cancel()
        await self.store()
        rows = await self._database.run(_RELEASE, self._args)
        return bool(rows) and not rows[0][0]


def _json(failure: Failure) -> str:
    # No text of PostgreSQL holds a zero: then no part of the failure could be read.
    return json.dumps(asdict(failure)).replace("\\u0000", "\\ufffd")


async def is_done(database: Database, plan: str, number: int) -> bool:
    """Tell whether nothing is left to do of a chunk, also because its plan was deleted."""
    # Also of another job or version: who takes the chunk for done here would lose it.
    rows = await database.run(_IS_OPEN, {"name": plan, "number": number})
    return not rows or not rows[0][0]


async def renew(
    database: Database, owners: Sequence[UUID], *, lease: float, pid: int | None
) -> set[UUID]:
    """Renew leases; return the deliveries that still own their chunks."""
    args = {"owners": list(owners), "lease": lease, "pid": pid}
    return {row[0] for row in await database.run(_RENEW, args)}
