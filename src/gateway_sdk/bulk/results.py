"""What a run gives out: a result for each item, and its progress."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from gateway_sdk._http.body.body import tell_progress

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult(Generic[Item, Value]):
    """What became of one item.

    Attributes:
        item: As it was given.
        error: What the call raised; None if it succeeded.
        attempts: Requests that were made for it, over all its calls of a session; those of the
            error where no session was heard.
        elapsed: Seconds that the call took; 0 if it was not begun.
        from_journal: Whether it was read from the journal: the value is then what `load` makes of
            the JSON that stands there, and the error says no more than the journal does.
    """

    item: Item
    error: Exception | None
    attempts: int = 0
    elapsed: float
    from_journal: bool = False
    _value: Value | None = field(repr=False)

    @property
    def value(self) -> Value:
        """What the call returned.

        Raises:
            Exception: the call failed; the same as `error`.
        """
        if self.error is not None:
            raise self.error
        return cast("Value", self._value)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has got.

    Attributes:
        done: Items that have a result, failed ones included.
        failed: Those whose call failed.
        from_journal: Those that an earlier run had done.
        total: How many there are; None if *items* does not tell its length.
    """

    done: int
    failed: int
    from_journal: int
    total: int | None


OnProgress = Callable[[Progress], object]


class Meter:
    """Counts results and tells whoever wants to know."""

    def __init__(self, tell: OnProgress | None, total: int | None) -> None:
        self._tell = tell
        self._now = Progress(0, 0, 0, total)

    def count(self, result: BulkResult[Any, Any]) -> None:
        """Count a result; what the listener raises is logged, and loses nothing."""
        if self._tell is None:
            return
        before = self._now
        self._now = Progress(
            before.done + 1,
            before.failed + (result.error is not None),
            before.from_journal + result.from_journal,
            before.total,
        )
        tell_progress(self._tell, self._now)
