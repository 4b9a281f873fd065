"""The results of a run, and its progress."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from pydantic_core import from_json

from gateway_sdk.errors import GatewayError, JournalError

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(slots=True, unsafe_hash=True)
class StoredValue:
    """The JSON of a journal."""

    text: str

    def decode(self) -> Any:
        """Return what the text holds."""
        try:
            return from_json(self.text)
        except ValueError:
            # It may be deeper than pydantic reads, although pydantic wrote it.
            with suppress(ValueError, RecursionError):
                return json.loads(self.text)
        raise JournalError("the journal is damaged: a value is no JSON")


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult(Generic[Item, Value]):
    """The result of one item.

    Attributes:
        item: The item, as it was given.
        error: The error of the call; None if it succeeded.
        attempts: Requests for the item, over all calls of sessions of this package; without such
            calls, the attempts of the error.
        elapsed: Seconds that the call took; 0 if it did not begin.
        from_journal: Whether the result was read from the journal: `load` has then made the value
            of the JSON, and the error has only the attributes that the journal holds.
    """

    item: Item
    error: Exception | None
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
        if isinstance(self._value, StoredValue):
            object.__setattr__(self, "_value", self._value.decode())
        return cast("Value", self._value)


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
