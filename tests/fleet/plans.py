"""Plans and records for tests of stores."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from gateway_sdk import Advice
from gateway_sdk.bulk.ledger import Failure
from gateway_sdk.fleet._store import ItemRecord, PlanRecord, State, Store

STARTER = uuid4()
"""A delivery of a chunk."""


def a_plan(items: int = 25, chunk: int = 10, name: str = "rates") -> PlanRecord:
    return PlanRecord(
        name=name,
        id=uuid4().hex,
        operation="exchange_rate_series",
        chunk_size=chunk,
        items=items,
        digest="0a",
    )


def texts(plan: PlanRecord, chunk: int) -> list[str]:
    return [f'{{"number":{index}}}' for index in plan.indexes(chunk)]


async def stored(store: Store, plan: PlanRecord) -> PlanRecord:
    for chunk in range(plan.chunks):
        await store.write_items(plan.name, plan.id, chunk, texts(plan, chunk))
    return await store.seal(plan)


def begun(record: ItemRecord) -> ItemRecord:
    """Return the result of the delivery that began the item."""
    return replace(record, starter=STARTER)


def done(index: int, value: str = "1") -> ItemRecord:
    """Return the result of an item that has ended well."""
    return ItemRecord(
        index=index,
        state=State.DONE,
        item=f'{{"number":{index}}}',
        value=value,
        attempts=2,
        elapsed=0.25,
    )


def failed(index: int, status: int | None = None, *, is_safe: bool = True) -> ItemRecord:
    failure = Failure(
        error="ServerError",
        message="server error",
        operation="cancel_order",
        outcome="UNKNOWN",
        status=status,
        advice=Advice.REPEAT if is_safe else Advice.CHECK,
    )
    return ItemRecord(
        index=index, state=State.FAILED, item=f'{{"number":{index}}}', failure=failure
    )


async def all_results(store: Store, plan: PlanRecord) -> list[ItemRecord]:
    pages: list[Sequence[ItemRecord]] = [page async for page in store.results(plan)]
    return [record for page in pages for record in page]
