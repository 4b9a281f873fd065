"""A store in memory, for tests of what stands on stores."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar
from uuid import UUID

from gateway_sdk import Advice
from gateway_sdk.fleet._store import (
    ChunkRecord,
    ChunkState,
    Counts,
    ItemRecord,
    PlanRecord,
    State,
    reason_of,
)

T = TypeVar("T")
ENDED = (State.DONE, State.FAILED)


async def _nothing(operation: str) -> None: ...


class MemoryStore:
    """Keeps everything in dictionaries.

    Attributes:
        before: Awaited before each operation, with its name; may raise.
        after: Awaited after each operation has changed the store, with its name; may raise.
    """

    def __init__(self, *, batch: int = 25) -> None:
        self.batch = batch
        self.before: Callable[[str], Awaitable[None]] = _nothing
        self.after: Callable[[str], Awaitable[None]] = _nothing
        self.is_open = 0
        self.plans: dict[str, PlanRecord] = {}
        self.items: dict[tuple[str, str], dict[int, list[str]]] = {}
        self.states: dict[tuple[str, int], ItemRecord] = {}
        self.chunks: dict[tuple[str, int], ChunkRecord] = {}
        self.stored: list[int] = []

    async def open(self) -> None:
        self.is_open += 1

    async def aclose(self) -> None:
        self.is_open = 0

    async def _do(self, name: str, change: Callable[[], T]) -> T:
        await self.before(name)
        await asyncio.sleep(0)
        value = change()
        await self.after(name)
        return value

    async def find_plan(self, name: str) -> PlanRecord | None:
        return await self._do("find_plan", lambda: self.plans.get(name))

    async def write_items(self, name: str, plan_id: str, chunk: int, items: Sequence[str]) -> None:
        written = self.items.setdefault((name, plan_id), {})
        await self._do("write_items", lambda: written.update({chunk: list(items)}))

    async def seal(self, plan: PlanRecord) -> PlanRecord:
        def change() -> PlanRecord:
            sealed = self.plans.setdefault(plan.name, plan)
            for name, plan_id in list(self.items):
                if name == plan.name and plan_id != sealed.id:
                    del self.items[name, plan_id]
            return sealed

        return await self._do("seal", change)

    async def discard(self, name: str, plan_id: str) -> None:
        await self._do("discard", lambda: self.items.pop((name, plan_id), None))

    async def read_items(self, plan: PlanRecord, chunk: int) -> list[str]:
        items = self.items[plan.name, plan.id]
        return await self._do("read_items", lambda: list(items[chunk]))

    def _of(self, plan: PlanRecord) -> list[ItemRecord]:
        found = (self.states.get((plan.id, index)) for index in range(plan.items))
        return [record for record in found if record is not None]

    async def known(self, plan: PlanRecord, chunk: int) -> dict[int, State]:
        inside = plan.indexes(chunk)
        return await self._do(
            "known",
            lambda: {
                record.index: record.state for record in self._of(plan) if record.index in inside
            },
        )

    async def begin(self, plan: PlanRecord, index: int, starter: UUID) -> bool:
        def change() -> bool:
            is_new = (plan.id, index) not in self.states
            if is_new:
                text = self._item(plan, index)
                record = ItemRecord(index=index, state=State.BEGUN, item=text, starter=starter)
                self.states[plan.id, index] = record
            return is_new

        return await self._do("begin", change)

    def _item(self, plan: PlanRecord, index: int) -> str:
        chunk, place = divmod(index, plan.chunk_size)
        return self.items[plan.name, plan.id][chunk][place]

    async def release(self, plan: PlanRecord, indexes: Iterable[int], starter: UUID) -> None:
        def change() -> None:
            for index in indexes:
                record = self.states.get((plan.id, index))
                if record and record.starter == starter and record.state not in ENDED:
                    del self.states[plan.id, index]

        await self._do("release", change)

    async def settle_unknown(self, plan: PlanRecord, indexes: Iterable[int]) -> None:
        def change() -> None:
            for index in indexes:
                record = self.states.get((plan.id, index))
                if record is not None and record.state is State.BEGUN:
                    self.states[plan.id, index] = replace(record, state=State.UNKNOWN)

        await self._do("settle_unknown", change)

    async def write_results(
        self, plan: PlanRecord, chunk: int, records: Sequence[ItemRecord]
    ) -> None:
        assert all(record.index in plan.indexes(chunk) for record in records)

        def change() -> None:
            for record in records:
                known = self.states.get((plan.id, record.index))
                if known is None or (known.starter == record.starter and known.state not in ENDED):
                    self.states[plan.id, record.index] = record
                    self.stored.append(record.index)

        await self._do("write_results", change)

    async def counts(self, plan: PlanRecord) -> Counts:
        await self.before("counts")
        records = self._of(plan)
        states = [record.state for record in records]
        reasons = [reason_of(record.failure) for record in records if record.failure is not None]
        return Counts(
            done=states.count(State.DONE),
            failed={reason: reasons.count(reason) for reason in reasons},
            begun=states.count(State.BEGUN),
            unknown=states.count(State.UNKNOWN),
        )

    async def missing(self, plan: PlanRecord) -> AsyncIterator[int]:
        await self.before("missing")
        for chunk in range(plan.chunks):
            records = [self.states.get((plan.id, index)) for index in plan.indexes(chunk)]
            if any(record is None or record.state is State.BEGUN for record in records):
                yield chunk

    async def results(self, plan: PlanRecord) -> AsyncIterator[Sequence[ItemRecord]]:
        await self.before("results")
        for record in self._of(plan):
            yield [record]

    async def unknown(self, plan: PlanRecord) -> AsyncIterator[ItemRecord]:
        await self.before("unknown")
        for record in self._of(plan):
            if record.state is State.UNKNOWN:
                yield record

    async def forget_failed(self, plan: PlanRecord) -> int:
        def change() -> int:
            safe = [
                record.index
                for record in self._of(plan)
                if record.failure is not None and record.failure.advice is not Advice.CHECK
            ]
            for index in safe:
                del self.states[plan.id, index]
            return len(safe)

        return await self._do("forget_failed", change)

    async def start_chunk(self, plan: PlanRecord, chunk: int) -> int:
        def change() -> int:
            known = self.chunks.get((plan.id, chunk))
            starts = 1 if known is None else known.starts + 1
            self._note(plan, chunk, ChunkState.RUNNING, "", starts)
            return starts

        return await self._do("start_chunk", change)

    async def mark_chunk(
        self, plan: PlanRecord, chunk: int, state: ChunkState, message: str
    ) -> None:
        def change() -> None:
            known = self.chunks.get((plan.id, chunk))
            starts = 0 if known is None or state is ChunkState.WAITING else known.starts
            self._note(plan, chunk, state, message, starts)

        await self._do("mark_chunk", change)

    def _note(
        self, plan: PlanRecord, chunk: int, state: ChunkState, message: str, starts: int
    ) -> None:
        self.chunks[plan.id, chunk] = ChunkRecord(
            chunk=chunk, state=state, starts=starts, message=message, at=datetime.now(UTC)
        )

    async def clear_chunk(self, plan: PlanRecord, chunk: int) -> None:
        await self._do("clear_chunk", lambda: self.chunks.pop((plan.id, chunk), None))

    async def open_chunks(self, plan: PlanRecord) -> AsyncIterator[ChunkRecord]:
        await self.before("open_chunks")
        for (plan_id, _), record in sorted(self.chunks.items()):
            if plan_id == plan.id:
                yield record
