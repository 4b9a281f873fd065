"""The results of a run, its progress, and what a ledger keeps of its items."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from gateway_sdk.errors import GatewayError, JournalError
from gateway_sdk.outcome import Advice, Outcome

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(slots=True, unsafe_hash=True)
class StoredValue:
    """The JSON of a journal."""

    text: str
    _decoded: Any = field(default=None, compare=False, repr=False)

    def decode(self) -> Any:
        """Return what the text holds, always the same object."""
        try:
            if self._decoded is None:
                self._decoded = json.loads(self.text)
        except (ValueError, RecursionError):
            pass  # the cause would show the value
        else:
            return self._decoded
        raise JournalError("the journal is damaged: a value is no JSON")


@dataclass(frozen=True, slots=True)
class LoadText:
    """A `load` that takes the JSON of a journal as it stands there."""

    read: Callable[[str], Any]

    def __call__(self, text: str) -> Any:
        """Return the value."""
        return self.read(text)


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class BulkResult(Generic[Item, Value]):
    """The result of one item.

    Attributes:
        item: The item, as it was given.
        error: The error of the call; None if it succeeded.
        attempts: Requests for the item, over all calls of sessions of this package; without such
            calls, the attempts of the error.
        elapsed: Seconds that the call took; 0 if it did not begin.
        outcome: What the gateway did, over all calls for the item; None without an error.
        advice: What to do next about the item; None without an error.
        from_journal: Whether the result was read from the journal: `load` has then made the value
            of the JSON, and the error has only the attributes that the journal holds.
    """

    item: Item
    error: Exception | None
    outcome: Outcome | None = None
    advice: Advice | None = None
    attempts: int = 0
    elapsed: float
    from_journal: bool = False
    _value: "Value | StoredValue | None" = field(repr=False)

    @property
    def value(self) -> Value:
        """The value that the call returned.

        Raises:
            Exception: the call failed; this is `error`.
            JournalError: the journal is damaged.
        """
        if self.error is not None:
            raise self.error.with_traceback(None)  # else each raise would add its frames
        kept = self._value
        return cast("Value", kept.decode() if isinstance(kept, StoredValue) else kept)


value_of: Final = attrgetter("_value")
"""Returns the value of a result as it is kept: that of a journal is not decoded."""


class Results(AsyncGenerator[BulkResult[Item, Value], None]):
    """The results of a run; a run that was ended by a cancellation is not taken for complete."""

    def __init__(self, results: AsyncGenerator[BulkResult[Item, Value], None]) -> None:
        self._results = results
        self._was_cancelled = False

    def __anext__(self) -> Coroutine[Any, Any, BulkResult[Item, Value]]:
        return self.asend(None)  # that of the base class would be one more coroutine

    async def asend(self, value: None) -> BulkResult[Item, Value]:
        """Return the next result; only None can be sent."""
        try:
            return await self._results.asend(value)
        except asyncio.CancelledError:
            self._was_cancelled = True
            raise
        except StopAsyncIteration:
            if not self._was_cancelled:
                raise
        raise GatewayError("the run was ended by a cancellation, as of wait_for around anext")

    async def athrow(self, *error: Any) -> BulkResult[Item, Value]:
        """Raise an error in the run."""
        return await self._results.athrow(*error)

    async def aclose(self) -> None:
        """End the run: nothing is left running."""
        await self._results.aclose()


@dataclass(frozen=True, slots=True)
class Outage:
    """What a run waits for: a gateway that is away, or a login.

    Attributes:
        error: The error of the call that showed it; its advice is LOG_IN if a login is missing.
        since: The time of this error, in UTC.
    """

    error: GatewayError
    since: datetime


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run.

    Attributes:
        done: Items that have a result, also failed ones.
        failed: Items whose call failed.
        from_journal: Items whose result came from the journal.
        total: The number of items; None if *items* has no length.
        outage: What the run waits for; None if calls are made.
    """

    done: int
    failed: int
    from_journal: int
    total: int | None
    outage: Outage | None = None


OnProgress = Callable[[Progress], object]


class State(StrEnum):
    """The state of an item."""

    BEGUN = "begun"
    """A request that must not be sent twice is about to be sent."""
    UNKNOWN = "unknown"
    """Such a request may have been carried out: it is never sent again."""
    INTERRUPTED = "interrupted"
    """The run ended before the call; the call may be repeated."""
    DONE = "done"
    """There is a value; nothing replaces it."""
    FAILED = "failed"
    """There is an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is kept of an error: no text of the gateway, and none of other packages.

    Attributes:
        error: The name of its class.
        message: None if the error is not of this package.
        operation: The operation of the call; None if no call was made.
        outcome: The outcome of the item; None if no session reported a call.
        status: The HTTP status, if there is one.
        advice: What to do next.
        writes: What each write of the item did, in words, if the error is not that of all; else
            None.
    """

    error: str
    message: str | None = None
    operation: str | None = None
    outcome: str | None = None
    status: int | None = None
    advice: Advice = Advice.FIX
    writes: str | None = None


@dataclass(slots=True, kw_only=True)
class Entry:
    """What is kept of one item.

    Attributes:
        key: The digest of the item, or of its key: 16 bytes.
        state: Its state.
        once: Whether a request was made for it that must not be sent twice.
        item: The item as JSON; None if it is not JSON.
        value: The value as JSON; None if there is none.
        failure: The error, in the states FAILED and UNKNOWN.
        attempts: Requests for the item.
        elapsed: Seconds.
        time: The time of its end, in UTC; None until it is written.
    """

    key: bytes
    state: State
    once: bool = False
    item: str | None = None
    value: str | None = None
    failure: Failure | None = None
    attempts: int = 0
    elapsed: float = 0.0
    time: datetime | None = None


class Ledger(Protocol):
    """Keeps one entry per item; a run calls one coroutine method at a time."""

    async def open(self) -> None:
        """Called before the first item."""
        ...

    def has(self, key: bytes) -> bool:
        """Tell whether an item has ended, so that it is not begun again."""
        ...

    async def read(self, keys: Sequence[bytes]) -> Sequence[Entry]:
        """Return the entries of items that have ended, in this order."""
        ...

    async def write(self, entries: Sequence[Entry]) -> Sequence[Exception | None] | None:
        """Return when the end of the process cannot lose the entries.

        To refuse requests that must not be sent twice, return a list: for each entry None, or an
        `InvalidArgumentError` for one in the state BEGUN, which is then that of its call.

        An entry in the state BEGUN must survive the end of the machine too: its request has its
        connection slot and its permit of the rate limit, and is sent after this. If this raises,
        it is not sent.
        """
        ...

    async def aclose(self) -> None:
        """Called after the last item, also if `open` failed."""
        ...
