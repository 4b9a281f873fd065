"""How many calls may be in flight at once, and which replies say that there are too many."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Protocol

from gateway_sdk.errors import DeadlineExceededError, ReplyTimeoutError
from gateway_sdk.outcome import Attempt

TOO_MANY: Final = 429

BUSY: Final = frozenset({408, TOO_MANY, 503, 504})
"""Statuses that may say: too many at once."""

_SERVER_ERROR: Final = 500
_TOO_SLOW: Final = (ReplyTimeoutError.__name__, DeadlineExceededError.__name__)


def was_refused(status: int | None, error: str | None) -> bool | None:
    """Tell whether it was too much for the gateway; None if that cannot be told."""
    if status in BUSY or error in _TOO_SLOW:
        return True
    return False if status is not None and status < _SERVER_ERROR else None


class Ticket(Protocol):
    """One item under way, as a limit follows it."""

    def attempt_finished(self, attempt: Attempt) -> None:
        """Hear of a request that has ended."""

    def retry_scheduled(self, seconds: float) -> None:
        """Hear that the item waits for so long before it is sent again."""

    def ended(self, error: BaseException | None) -> None:
        """Hear that the item has ended, however it did; told once."""


class Limit(ABC):
    """Says when the next item may begin."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many calls may be under way now."""

    @abstractmethod
    def has_room(self, waiting: int) -> bool:
        """Tell whether one more may begin, while so many results wait to be taken."""

    @abstractmethod
    def begin(self, wake: Callable[[], None]) -> Ticket:
        """Count an item that begins; *wake* is called when there may be room again."""


class Fixed(Limit):
    """So many calls and no more; a result that waits to be taken keeps its place."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._under_way = 0

    @property
    def size(self) -> int:
        """The number that was given."""
        return self._size

    def has_room(self, waiting: int) -> bool:
        """Tell whether the places are not all taken."""
        return self._under_way + waiting < self._size

    def begin(self, wake: Callable[[], None]) -> Ticket:
        """Take a place."""
        del wake  # the end of an item is heard of anyway
        self._under_way += 1
        return _Place(self._give_back)

    def _give_back(self) -> None:
        self._under_way -= 1


class _Place:
    """One of a fixed number of places."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back

    def attempt_finished(self, attempt: Attempt) -> None:
        """Learn nothing: the number is fixed."""

    def retry_scheduled(self, seconds: float) -> None:
        """Keep the place while the item waits."""

    def ended(self, error: BaseException | None) -> None:
        """Give the place back."""
        del error
        self._give_back()
