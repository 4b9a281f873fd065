"""The store of plans in PostgreSQL, which takes every operation; needs the extra [fleet]."""

from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import UTC
from typing import Any, Final, NoReturn
from uuid import UUID

from pydantic import TypeAdapter

from gateway_sdk._python import safe_repr
from gateway_sdk.bulk.ledger import Failure
from gateway_sdk.errors import PlanStoreError
from gateway_sdk.fleet import _postgres_sql as sql
from gateway_sdk.fleet._outage import PATIENCE
from gateway_sdk.fleet._postgres import Database
from gateway_sdk.fleet._store import (
    ChunkRecord,
    ChunkState,
    Counts,
    ItemRecord,
    PlanRecord,
    State,
    reason_of,
)
from gateway_sdk.outcome import Advice

_PAGE: Final = 1000
"""Items that are read at a time."""

_FAILURE: Final = TypeAdapter(Failure)


class PostgresStore:
    """Keeps plans and results in PostgreSQL.

    It records durably that a request is sent which must not be sent twice. So it takes every
    operation. Its tables are created when they are missing, in a schema of their own.
    """

    batch: int = 25

    def __init__(
        self, dsn: str, *, schema: str = "gateway_fleet", patience: float = PATIENCE
    ) -> None:
        """Check the DSN; nothing is sent.

        Args:
            dsn: postgresql://user:password@host:port/database, as libpq knows it. To another host
                it must say `sslmode=verify-full` or `sslmode=require`; or `sslmode=disable`, if
                the network itself is private.
            schema: The schema of the tables: small letters, digits and underscores.
            patience: Seconds that a server may take to come back, such as after a restart.

        Raises:
            ConfigurationError: An argument is invalid, or the extra [fleet] is not
                installed.
        """
        self._database = Database(dsn, schema, patience)

    async def open(self) -> None:
        """Connect, and create the tables if they are missing.

        Raises:
            PlanStoreError: The server does not answer, refuses access, or has other tables.
            ConfigurationError: The client library does not understand the DSN.
        """
        await self._database.open()

    async def aclose(self) -> None:
        """Disconnect; statements in flight have a few seconds to end."""
        await self._database.aclose()

    async def find_plan(self, name: str) -> PlanRecord | None:
        """Return the plan of a name; None if it was not planned to its end."""
        for row in await self._database.rows(sql.FIND_PLAN, name):
            return PlanRecord(**dict(row) | {"id": row["id"].hex})
        return None

    async def write_items(self, name: str, plan_id: str, chunk: int, items: Sequence[str]) -> None:
        """Write the items of a chunk; replaces what is there."""
        await self._database.rows(sql.WRITE_ITEMS, UUID(plan_id), chunk, name, items)

    async def seal(self, plan: PlanRecord) -> PlanRecord:
        """Make this the plan of its name, if the name has none; return the plan of the name."""
        await self._database.rows(
            sql.SEAL,
            plan.name,
            UUID(plan.id),
            plan.operation,
            plan.chunk_size,
            plan.items,
            plan.digest,
            plan.version,
        )
        await self._database.rows(sql.DISCARD_OTHERS, plan.name)
        return await self.find_plan(plan.name) or plan

    async def discard(self, name: str, plan_id: str) -> None:
        """Delete the items of a plan that was not sealed."""
        await self._database.rows(sql.DISCARD, name, UUID(plan_id))

    async def read_items(self, plan: PlanRecord, chunk: int) -> list[str]:
        """Return the items of a chunk, in their order.

        Raises:
            PlanStoreError: There is no such chunk.
        """
        for row in await self._database.rows(sql.READ_ITEMS, UUID(plan.id), chunk):
            return list(row["items"])
        raise PlanStoreError(
            f"{self._database.what} has no chunk {chunk} of the plan {plan.address}"
        )

    async def known(self, plan: PlanRecord, chunk: int) -> dict[int, State]:
        """Return the state of each item of a chunk that has one, by index."""
        indexes = plan.indexes(chunk)
        rows = await self._database.rows(sql.KNOWN, UUID(plan.id), indexes.start, indexes.stop)
        return {row["index"]: State(row["state"]) for row in rows}

    async def begin(self, plan: PlanRecord, index: int, starter: UUID) -> bool:
        """Commit that a request that must not be sent twice is sent for an item.

        It is asked again, with the same mark, if the connection is lost before the answer. So the
        answer is exact also when the server restarts.
        """
        return bool(await self._database.rows(sql.BEGIN, UUID(plan.id), index, starter))

    async def release(self, plan: PlanRecord, indexes: Iterable[int], starter: UUID) -> None:
        """Delete what a delivery recorded of items for which it has sent nothing."""
        await self._database.rows(sql.RELEASE, UUID(plan.id), list(indexes), starter)

    async def settle_unknown(self, plan: PlanRecord, indexes: Iterable[int]) -> None:
        """Make `unknown` of those items that are `begun`."""
        await self._database.rows(sql.SETTLE_UNKNOWN, UUID(plan.id), list(indexes))

    async def write_results(
        self, plan: PlanRecord, chunk: int, records: Sequence[ItemRecord]
    ) -> None:
        """Store results; those of the delivery that began an item replace `begun` and `unknown`."""
        del chunk
        # asyncpg looks at each member of an array more than once.
        columns = (
            [] if column.count(None) == len(column) else column
            for column in zip(*map(_columns, records), strict=True)
        )
        await self._database.rows(sql.WRITE_RESULTS, UUID(plan.id), *columns)

    async def counts(self, plan: PlanRecord) -> Counts:
        """Count the items by state."""
        rows = await self._database.rows(sql.COUNTS, UUID(plan.id))
        numbers = Counter[str]()
        for row in rows:  # what is unknown may have a reason, several, or none
            if row["state"] != State.FAILED:
                numbers[row["state"]] += row["number"]
        failed = {row["reason"]: row["number"] for row in rows if row["state"] == State.FAILED}
        return Counts(**numbers, failed=failed)

    async def missing(self, plan: PlanRecord) -> AsyncGenerator[int]:
        """Yield the numbers of chunks with items that have no state or are `begun`."""
        for first, end in _spans(plan):
            numbers = (UUID(plan.id), first, end, plan.chunk_size, plan.items)
            for row in await self._database.rows(sql.MISSING, *numbers):
                yield row["chunk"]

    async def results(self, plan: PlanRecord) -> AsyncGenerator[Sequence[ItemRecord]]:
        """Yield all items that have a state, in the order of the plan, some at a time."""
        for first, end in _spans(plan):
            rows = await self._database.rows(
                sql.RESULTS, UUID(plan.id), first, end, plan.chunk_size
            )
            if rows:
                yield [_record(row) for row in rows]

    async def unknown(self, plan: PlanRecord) -> AsyncGenerator[ItemRecord]:
        """Yield the items that are `unknown`, in the order of the plan."""
        last: int | None = -1
        while last is not None:
            rows = await self._database.rows(
                sql.UNKNOWN, UUID(plan.id), last, plan.chunk_size, _PAGE
            )
            last = rows[-1]["index"] if rows else None
            for row in rows:
                yield _record(row)

    async def forget_failed(self, plan: PlanRecord) -> int:
        """Delete the failures that are safe to repeat, and return their number."""
        ((number,),) = await self._database.rows(sql.FORGET_FAILED, UUID(plan.id))
        return int(number)

    async def start_chunk(self, plan: PlanRecord, chunk: int) -> int:
        """Record that a chunk is `running`, and return how often it was started."""
        ((starts,),) = await self._database.rows(sql.START_CHUNK, UUID(plan.id), chunk)
        return int(starts)

    async def mark_chunk(
        self, plan: PlanRecord, chunk: int, state: ChunkState, message: str
    ) -> None:
        """Record what a worker says of a chunk."""
        await self._database.rows(sql.MARK_CHUNK, UUID(plan.id), chunk, state.value, message)

    async def clear_chunk(self, plan: PlanRecord, chunk: int) -> None:
        """Delete the record of a chunk."""
        await self._database.rows(sql.CLEAR_CHUNK, UUID(plan.id), chunk)

    async def open_chunks(self, plan: PlanRecord) -> AsyncGenerator[ChunkRecord]:
        """Yield the records of chunks that have not ended, in order."""
        last: int | None = -1
        while last is not None:
            rows = await self._database.rows(sql.OPEN_CHUNKS, UUID(plan.id), last, _PAGE)
            last = rows[-1]["chunk"] if rows else None
            for row in rows:
                yield ChunkRecord(
                    chunk=row["chunk"],
                    state=ChunkState(row["state"]),
                    starts=row["starts"],
                    message=row["message"],
                    at=row["at"].astimezone(UTC),
                )

    @safe_repr
    def __repr__(self) -> str:
        return f"<PostgresStore {self._database.place}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a PostgresStore may hold a password: it cannot be pickled")


def _spans(plan: PlanRecord) -> Iterable[tuple[int, int]]:
    """Return the first and the last chunk (exclusive) of about a page of items each."""
    step = max(1, _PAGE // plan.chunk_size)
    return ((first, min(first + step, plan.chunks)) for first in range(0, plan.chunks, step))


def _columns(record: ItemRecord) -> tuple[object, ...]:
    failure = record.failure
    return (
        record.index,
        record.state.value,
        record.value,
        failure and _FAILURE.dump_json(failure).decode(),
        failure and reason_of(failure),
        failure and failure.advice is not Advice.CHECK,
        record.attempts,
        record.elapsed,
        record.starter,
    )


def _record(row: Any) -> ItemRecord:
    failure = row["failure"]
    return ItemRecord(
        index=row["index"],
        state=State(row["state"]),
        item=row["item"],
        value=row["value"],
        failure=failure and _FAILURE.validate_json(failure),
        attempts=row["attempts"],
        elapsed=row["elapsed"],
    )
