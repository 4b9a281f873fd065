"""A chunk: who owns it, what is left to do, and what is stored of it."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Self
from uuid import UUID, uuid4

from gateway_sdk.bulk import Entry, Failure, State
from gateway_sdk.errors import GatewayError, JournalError
from gateway_sdk.fleet._database import Database
from gateway_sdk.outcome import Advice

_ROWS: Final = 100  # of one statement
_DEATHS: Final = 2
"""A chunk or an item whose worker died so often is suspected."""

# The table of chunks is the queue. An owner is dead when its lease is over, or, at once, when its
# worker's connection has left the server; not when the server was started since, which ends all
# connections. What was no connection of the server when it was told, such as one of a pooler, says
# nothing. A claim whose answer was lost finds its own chunk.
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
    "plan = (select id from gateway_fleet.plan where name = %(plan)s) and number = %(number)s"
)

_IS_OPEN: Final = """
select 1 from gateway_fleet.chunk c join gateway_fleet.plan p on p.id = c.plan
where p.name = %(plan)s and c.number = %(number)s and c.open
"""

# What a dead owner had begun may have been carried out: it becomes unknown.
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
  where plan = %(plan)s and number = %(number)s),
withdrawn as (
  delete from gateway_fleet.result
  where plan = %(plan)s and n = any(%(withdrawn)b::bigint[]) and owner = %(owner)s
    and state = 'begun')
select count(*) from mine
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


class Chunk:
    """A chunk that this worker owns; its lease has to be renewed."""

    def __init__(self, database: Database, owner: UUID, row: Sequence[Any]) -> None:
        plan, size, number, self._items, starts, self._suspect, self._suspicion = row
        self.owner = owner
        self.place = plan, number
        self.is_suspected = starts > _DEATHS
        self.is_lost = False
        self.todo: list[tuple[int, Any]] = []
        self._left = 0
        self.ended = asyncio.Event()  # its items, or what the worker does of them
        self.given_back = asyncio.Event()
        self._database = database
        self._args: dict[str, Any] = {
            "plan": plan, "number": number, "owner": owner,
            "low": number * size, "high": (number + 1) * size,
        }  # fmt: skip

    @classmethod
    async def claim(
        cls, database: Database, queue: str, name: tuple[str, int] | None = None, *,
        lease: float, behind: tuple[int, int] = (0, -1),
    ) -> Self | None:  # fmt: skip
        """Take a chunk, or the next one; None if it is done, another has it, or there is none."""
        owner = uuid4()
        plan, number = name or behind
        args = {"queue": queue, "owner": owner, "lease": lease, "plan": plan, "number": number}
        rows = await database.run(_CLAIM_NEXT if name is None else _CLAIM_ONE, args)
        return cls(database, owner, rows[0]) if rows else None

    async def open(self) -> None:
        """Find the items of which nothing is known; a suspected one comes first."""
        rows = await self._database.run(_KNOWN, {**self._args, "failure": _json(_DIED)})
        known = {row[0] for row in rows}
        if self._suspicion >= _DEATHS and self._suspect not in known:
            await self.store({self._suspect: _killer(self._suspicion)})
            known.add(self._suspect)
        numbered = enumerate(self._items, self._args["low"])
        self.todo = [(n, item) for n, item in numbered if n not in known]
        self.todo.sort(key=lambda one: one[0] != self._suspect)
        self._left = len(self.todo)

    async def suspect(self, n: int) -> None:
        """Note that an item is done alone: if the worker dies now, it is this item."""
        suspicion = self._suspicion + 1 if n == self._suspect else 1
        await self._database.run(_SUSPECT, {**self._args, "n": n, "suspicion": suspicion})

    async def store(self, entries: Mapping[int, Entry]) -> None:
        """Store what became of items; if the chunk is lost, only how its begun calls ended."""
        numbers = list(entries)
        for start in range(0, len(numbers), _ROWS):  # a heartbeat can come between
            await self._store({n: entries[n] for n in numbers[start : start + _ROWS]})

    async def _store(self, entries: Mapping[int, Entry]) -> None:
        rows = {n: one for n, one in entries.items() if one.state is not State.INTERRUPTED}
        found = await self._database.run(
            _WRITE,
            {
                **self._args,
                "n": list(rows),
                "state": [one.state.value for one in rows.values()],
                "once": [one.once for one in rows.values()],
                "value": [one.value for one in rows.values()],
                "failure": [one.failure and _json(one.failure) for one in rows.values()],
                "attempts": [one.attempts for one in rows.values()],
                "elapsed": [one.elapsed for one in rows.values()],
                "withdrawn": list(entries.keys() - rows.keys()),
            },
        )
        self.is_lost = self.is_lost or not found[0][0]

    def item_ended(self) -> None:
        self._left -= 1
        if not self._left:
            self.ended.set()

    async def release(self) -> bool:
        """Give the chunk back, and return whether it is done."""
        rows = await self._database.run(_RELEASE, self._args)
        return bool(rows) and not rows[0][0]


class ChunkLedger:
    """Stores what a run tells of its items, which are numbers here, in their chunks."""

    def __init__(self, items: Mapping[int, tuple[Chunk, int, Any]]) -> None:
        self._items = items

    async def open(self) -> None: ...

    def has(self, key: bytes) -> bool:
        del key
        return False  # only items of which nothing is known are begun

    async def read(self, keys: Sequence[bytes]) -> Sequence[Entry]:
        raise NotImplementedError

    async def write(self, entries: Sequence[Entry]) -> None:
        by_chunk: dict[Chunk, dict[int, Entry]] = {}
        beginning: set[Chunk] = set()
        for entry in entries:
            chunk, n, _ = self._items[int(entry.item or "")]
            by_chunk.setdefault(chunk, {})[n] = entry  # the last one of an item holds
            if entry.state is State.BEGUN:
                beginning.add(chunk)
        for chunk, of_items in by_chunk.items():
            await chunk.store(of_items)
        if any(chunk.is_lost for chunk in beginning):
            error = OvertakenError("not sent: the chunk belongs to another worker now")
            error.advice = Advice.REPEAT  # also for items of other chunks: no failure of theirs
            raise error

    async def aclose(self) -> None: ...


def _killer(deaths: int) -> Entry:
    message = f"its worker ended {deaths} times while it did this item alone"
    failure = Failure(
        error=GatewayError.__name__, message=message, outcome="UNKNOWN", advice=Advice.CHECK
    )
    return Entry(key=b"", state=State.FAILED, failure=failure)


def _json(failure: Failure) -> str:
    # No text of PostgreSQL holds a zero: then no part of the failure could be read.
    return json.dumps(asdict(failure)).replace("\\u0000", "\\ufffd")


async def is_done(database: Database, plan: str, number: int) -> bool:
    """Tell whether nothing is left to do of a chunk, also because its plan was deleted."""
    # Also of another job or version: who takes the chunk for done here would lose it.
    return not await database.run(_IS_OPEN, {"plan": plan, "number": number})
