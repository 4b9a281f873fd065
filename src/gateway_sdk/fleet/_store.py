"""What a store keeps of a plan, and the protocol of stores.

A store holds the truth about a plan: its items and their results. What is missing is computed from
it, so a queue may lose or repeat messages. An item is known by its index, which is its place in
the plan; equal items at two places are two items. Items and values are JSON texts here.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Protocol
from uuid import UUID

from gateway_sdk.bulk.ledger import Failure

VERSION: Final = 1
"""The version of what is stored; a plan of another version is refused."""


class State(StrEnum):
    """What the store knows of an item; of an item without a state it knows nothing."""

    BEGUN = "begun"
    """A request that must not be sent twice may be sent now; the item was not heard of again."""
    UNKNOWN = "unknown"
    """It was or may have been sent, and its result is not known. It is never sent again."""
    # With a failure, the call failed so; without one, the worker ended before it was stored.
    DONE = "done"
    """There is a value."""
    FAILED = "failed"
    """There is a failure."""


class ChunkState(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    """It waits for somebody, such as a user who has to log in."""
    BROKEN = "broken"
    """It ended with an error that is not that of an item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    name: str
    id: str  # random: no other plan has it, also none of this name; 32 hexadecimal digits
    operation: str  # or the name of a function
    chunk_size: int  # the last chunk may have fewer items
    items: int
    digest: str  # of all items in their order, in hexadecimal digits
    version: int = VERSION

    @property
    def chunks(self) -> int:
        """The number of chunks, which are numbered from 0."""
        return -(-self.items // self.chunk_size)

    @property
    def address(self) -> str:
        return f"{self.name}#{self.id}"

    def indexes(self, chunk: int) -> range:
        first = chunk * self.chunk_size
        return range(first, min(first + self.chunk_size, self.items))


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRecord:
    index: int  # its place in the plan, from 0
    state: State
    item: str = field(repr=False)  # it may be about a person
    value: str | None = field(default=None, repr=False)
    failure: Failure | None = None
    attempts: int = 0
    elapsed: float = 0.0
    # The delivery of the chunk, if it recorded `begun`. Only its result replaces `begun` and
    # `unknown`: the request of another delivery may be under way.
    starter: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRecord:
    chunk: int
    state: ChunkState
    starts: int  # 0 after it waited
    message: str
    at: datetime  # in UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many items of a plan are in each state."""

    done: int = 0
    failed: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))  # by reason
    begun: int = 0
    unknown: int = 0


def reason_of(failure: Failure) -> str:
    """Return the name of the error, with its status if it has one: "ServerError 503"."""
    return failure.error if failure.status is None else f"{failure.error} {failure.status}"


class Store(Protocol):
    """Where plans and results are; each method may be called by many processes at once."""

    # Each method waits for a store that does not answer, for a limited time (`_outage.outlast`),
    # and may raise a PlanStoreError; nothing stored is lost.

    # Results that are written at a time.
    @property
    def batch(self) -> int: ...

    async def open(self) -> None:
        """Connect, in the event loop that uses the store; nothing if it is open in this loop."""

    async def aclose(self) -> None:
        """Disconnect; nothing if it is closed. It may be opened again, also in another loop."""

    async def find_plan(self, name: str) -> PlanRecord | None:
        """Return the plan of a name; None if it was not planned to its end."""

    async def write_items(
        self, name: str, plan_id: str, chunk: int, items: Sequence[str]
    ) -> None: ...

    async def seal(self, plan: PlanRecord) -> PlanRecord:
        """Make this the plan of its name, if it has none; return that, delete items of others."""
        ...

    async def discard(self, name: str, plan_id: str) -> None:
        """Delete the items of a plan that was not sealed."""

    async def read_items(self, plan: PlanRecord, chunk: int) -> list[str]: ...

    async def known(self, plan: PlanRecord, chunk: int) -> dict[int, State]: ...

    # Only after True may the request be sent. A caller that did not hear the answer must ask no
    # second time: the item is `begun` then.
    async def begin(self, plan: PlanRecord, index: int, starter: UUID) -> bool:
        """Record durably that a request is sent that must not be sent twice; True to one caller."""
        ...

    # They are missing again, also if they have become `unknown`. Items of others stay.
    async def release(self, plan: PlanRecord, indexes: Iterable[int], starter: UUID) -> None:
        """Forget that a delivery began items, for which it has sent nothing and never will."""

    async def settle_unknown(self, plan: PlanRecord, indexes: Iterable[int]) -> None:
        """Make `unknown` of those items that are `begun`; leave others as they are."""

    # They replace no state; but those with the starter of the item replace `begun` and `unknown`.
    async def write_results(
        self, plan: PlanRecord, chunk: int, records: Sequence[ItemRecord]
    ) -> None:
        """Store results: `done`, `failed`, or `unknown` with a failure; again, nothing changes."""

    async def counts(self, plan: PlanRecord) -> Counts: ...

    def missing(self, plan: PlanRecord) -> AsyncIterator[int]:
        """Yield the numbers of chunks with items that have no state or are `begun`, in order."""
        ...

    # In memory that does not depend on the size of the plan.
    def results(self, plan: PlanRecord) -> AsyncIterator[Sequence[ItemRecord]]:
        """Yield all items that have a state, in the order of the plan, in lists of any length."""
        ...

    def unknown(self, plan: PlanRecord) -> AsyncIterator[ItemRecord]:
        """In the order of the plan."""
        ...

    async def forget_failed(self, plan: PlanRecord) -> int:
        """Delete the failures that are safe to repeat, and return their number."""
        ...

    async def start_chunk(self, plan: PlanRecord, chunk: int) -> int:
        """Record that a chunk is `running`, and return how often it was started until now."""
        ...

    async def mark_chunk(
        self, plan: PlanRecord, chunk: int, state: ChunkState, message: str
    ) -> None:
        """Record what a worker says of a chunk; `waiting` sets its starts to 0."""

    async def clear_chunk(self, plan: PlanRecord, chunk: int) -> None:
        """Delete the record of a chunk: it has ended, or its starts are counted anew."""

    def open_chunks(self, plan: PlanRecord) -> AsyncIterator[ChunkRecord]:
        """In order."""
        ...


def is_store(value: Any) -> bool:
    names = (name for name in vars(Store) if not name.startswith("_"))
    return all(hasattr(value, name) for name in names)
