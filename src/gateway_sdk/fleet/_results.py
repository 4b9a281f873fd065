"""What is known of the items of a chunk while it runs: what it began, and what became of it."""

import asyncio
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID, uuid4

from gateway_sdk.bulk._failures import failure_of
from gateway_sdk.bulk._keys import Dedup
from gateway_sdk.bulk._observers import ItemObserver
from gateway_sdk.bulk.results import BulkResult
from gateway_sdk.errors import (
    ConfigurationError,
    GatewayError,
    JournalError,
    SessionStateError,
)
from gateway_sdk.fleet._json import NoJsonValueError
from gateway_sdk.fleet._store import ItemRecord, PlanRecord, State, Store
from gateway_sdk.fleet._writer import Writer
from gateway_sdk.outcome import Advice, Outcome

_NOT_OF_AN_ITEM: Final = (ConfigurationError, JournalError, SessionStateError)
"""Every other item would fail likewise, and none of them is to blame."""


@dataclass(frozen=True, slots=True)
class Entry:
    index: int
    text: str = field(repr=False)


class Results(Dedup[Entry, str]):
    """Records in the store what is about to be sent, and passes results to the writer."""

    def __init__(self, plan: PlanRecord, store: Store, writer: Writer) -> None:
        self._plan = plan
        self._store = store
        self._writer = writer
        self._starter = uuid4()
        self._asked: set[int] = set()
        self._begun: set[int] = set()
        self._unsent: list[int] = []
        self._loop = asyncio.get_running_loop()
        self._error: Exception | None = None
        self.of_others: set[int] = set()  # items that another worker began first

    def check(self) -> None:
        """Raise an error that is not that of one item."""
        if self._error is not None:
            raise self._error

    async def record_intent(self, item: Entry, digest: bytes | None) -> bool:
        del digest
        if item.index in self._begun:  # another request of the same item
            return True
        if asyncio.get_running_loop() is not self._loop:
            raise SessionStateError(
                "the call is made in another event loop than its chunk, so the store cannot record"
                " it: make it in the event loop of the chunk"
            )
        self._asked.add(item.index)
        if await self._store.begin(self._plan, item.index, self._starter):
            self._begun.add(item.index)
            return True
        self.of_others.add(item.index)
        return False

    async def ended(
        self, digest: bytes | None, result: BulkResult[Entry, str], observer: ItemObserver
    ) -> BulkResult[Entry, str]:
        """Pass a result to the writer, unless the item is another worker's."""
        del digest
        error = result.error
        if result.item.index in self.of_others:
            return result
        if isinstance(error, _NOT_OF_AN_ITEM) and observer.may_repeat:
            self._error = self._error or error
        else:
            starter = self._starter if result.item.index in self._begun else None
            self._writer.add(record_of(result, observer, starter), at_once=observer.sends_once)
        return result

    async def interrupted(
        self, digest: bytes | None, result: BulkResult[Entry, str], observer: ItemObserver
    ) -> None:
        """Note an item that may have begun, and for which certainly nothing was done."""
        del digest
        if result.item.index in self._asked and observer.may_repeat:
            self._unsent.append(result.item.index)

    async def release(self) -> None:
        """Forget that those items began: they waited for a permit, or to be sent again."""
        if self._unsent:
            await self._store.release(self._plan, self._unsent, self._starter)


def record_of(
    result: BulkResult[Entry, str], observer: ItemObserver, starter: UUID | None
) -> ItemRecord:
    error = result.error
    if isinstance(error, NoJsonValueError):
        error = GatewayError(f"the value is no JSON ({error}): return JSON or a model")
        error.outcome = observer.outcome
    failure = None if error is None else failure_of(error, observer)
    state = State.DONE if failure is None else State.FAILED
    if failure and failure.advice is Advice.CHECK and failure.outcome == Outcome.UNKNOWN.name:
        state = State.UNKNOWN
    return ItemRecord(
        index=result.item.index,
        state=state,
        item=result.item.text,
        value=None if failure else result.value,
        failure=failure,
        attempts=result.attempts,
        elapsed=result.elapsed,
        starter=starter,
    )
