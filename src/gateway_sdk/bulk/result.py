"""What became of one item."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

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
