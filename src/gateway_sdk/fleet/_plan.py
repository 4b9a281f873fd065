"""A plan: what is to be done with many items, of which the store knows what is done."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from gateway_sdk.fleet._parts import Parts
from gateway_sdk.fleet._store import ChunkRecord, ItemRecord, PlanRecord
from gateway_sdk.session import GatewaySession


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatus:
    """What the store knows of a plan.

    Attributes:
        items: The number of items.
        done: Items with a value.
        failed: Failed items by reason: the name of the error, with its status if it has one.
        begun: Items whose request may be under way and must not be sent twice.
        unknown: Items whose request may have been sent; they are never sent again.
        missing: Items of which nothing is known.
        running: Chunks under way.
        waiting: What the plan waits for, such as a login; "" if it does not wait.
        broken: Chunks that ended with an error that is not that of an item.
    """

    items: int
    done: int
    failed: Mapping[str, int]
    begun: int
    unknown: int
    missing: int
    running: int
    waiting: str
    broken: tuple[ChunkRecord, ...]


class Plan:
    """A plan that is stored; made by `Job.plan` and `Job.load`."""

    def __init__(self, record: PlanRecord, parts: Parts) -> None:
        self._record = record
        self._parts = parts

    @property
    def record(self) -> PlanRecord:
        """What the store keeps of the plan itself."""
        return self._record

    @property
    def address(self) -> str:
        """What messages call the plan."""
        return self._record.address

    async def run(self, chunk: int, gateway: GatewaySession) -> None:
        """Do what the store lacks of a chunk."""
        raise NotImplementedError

    async def submit(self, broker: Any) -> int:
        """Send a message for each chunk with missing items, and return their number."""
        raise NotImplementedError

    async def status(self) -> PlanStatus:
        """Return what the store knows."""
        raise NotImplementedError

    def unknown(self) -> AsyncGenerator[ItemRecord, None]:
        """Yield the items that may have been sent and must be looked into."""
        raise NotImplementedError

    async def collect(self, path: str | PathLike[str], *, partial: bool = False) -> int:
        """Write all results into one file, and return the number of rows."""
        raise NotImplementedError
