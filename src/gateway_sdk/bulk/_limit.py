"""How many calls may be in flight at once, and which replies say that there are too many."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Protocol

from gateway_sdk.errors import DeadlineExceededError, ReplyTimeoutError
from gateway_sdk.outcome import Attempt

TOO_MANY: Final = 429

BUSY: Final = frozenset({408, TOO_MANY, 503, 504})
"""Statuses that may mean too many calls at once."""

_SERVER_ERROR: Final = 500
_TOO_SLOW: Final = (ReplyTimeoutError.__name__, DeadlineExceededError.__name__)


def was_refused(status: int | None, error: str | None) -> bool | None:
    """Tell whether an attempt was too much for the gateway; None if unknown."""
    if status in BUSY or error in _TOO_SLOW:
        return True
    return False if status is not None and status < _SERVER_ERROR else None


class Ticket(Protocol):
    """One item in flight, for its limit."""

    def attempt_finished(self, attempt: Attempt) -> None:
        """Called when a request has ended."""

    def retry_scheduled(self, seconds: float) -> None:
        """Called when the item waits so many seconds before it is sent again."""

    def ended(self, error: BaseException | None) -> None:
        """Called once when the item has ended, with its error if any."""


class Limit(ABC):
    """Decides when the next item may start."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of calls that may be in flight now."""

    @abstractmethod
    def has_room(self, waiting: int) -> bool:
        """Tell whether another item may start, while *waiting* results are not yet yielded."""

    @abstractmethod
    def begin(self, wake: Callable[[], None]) -> Ticket:
        """Count an item that starts; *wake* is called when there may be room again."""


class Fixed(Limit):
    """A fixed number of calls; a result that is not yet yielded keeps its place."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._under_way = 0

    @property
    def size(self) -> int:
        """The number that was given."""
        return self._size

    def has_room(self, waiting: int) -> bool:
        """Tell whether a place is free."""
        return self._under_way + waiting < self._size

    def begin(self, wake: Callable[[], None]) -> Ticket:
        """Take a place."""
        del wake  # the end of an item wakes the loop anyway
        self._under_way += 1
        return _Place(self._give_back)

    def _give_back(self) -> None:
        self._under_way -= 1


class _Place:
    """One of a fixed number of places."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back = give_back

    def attempt_finished(self, attempt: Attempt) -> None:
        """Do nothing: the number is fixed."""

    def retry_scheduled(self, seconds: float) -> None:
        """Keep the place while the item waits."""

    def ended(self, error: BaseException | None) -> None:
        """Give the place back."""
        del error
        self._give_back()
