"""The number of calls that may be in flight at once: fixed, or found by the controller.

It also decides which replies mean that there are too many.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from gateway_sdk.bulk._controller import Controller
from gateway_sdk.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    ReplyTimeoutError,
    StatusError,
)
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
    def attempt_finished(self, attempt: Attempt) -> None: ...

    def retry_scheduled(self, seconds: float) -> None: ...

    def ended(self, error: BaseException | None) -> None: ...


class Limit(ABC):
    """Decides when the next item may start."""

    @property
    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def has_room(self, waiting: int) -> bool: ...

    @abstractmethod
    def begin(self, wake: Callable[[], None]) -> Ticket:
        """Count an item that starts; *wake* is called when there may be room again."""


class FixedLimit(Limit):
    """A fixed number of calls; a result that is not yet yielded keeps its place."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._under_way = 0

    @property
    def size(self) -> int:
        return self._size

    def has_room(self, waiting: int) -> bool:
        return self._under_way + waiting < self._size

    def begin(self, wake: Callable[[], None]) -> Ticket:
        self._under_way += 1
        return _FixedTicket(self, wake)

    def give_back(self) -> None:
        self._under_way -= 1


class _FixedTicket:
    def __init__(self, limit: FixedLimit, wake: Callable[[], None]) -> None:
        self._limit = limit
        self._wake = wake

    def attempt_finished(self, attempt: Attempt) -> None: ...

    def retry_scheduled(self, seconds: float) -> None:
        """Keep the place while the item waits."""

    def ended(self, error: BaseException | None) -> None:
        del error
        self._limit.give_back()
        self._wake()


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Lets a run find the number of calls at once that the gateway accepts.

    Attributes:
        maximum: The largest number of calls at once; `max_connections` of the session limits it
            too.
        start: The number of calls at the beginning.
    """

    maximum: int = 100
    start: int = 4

    def __post_init__(self) -> None:
        """Refuse invalid numbers of calls."""
        for name in ("maximum", "start"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InvalidArgumentError(f"{name} must be a whole number of at least 1")


class AdaptiveLimit(Limit):
    """Passes events to a controller, with the times of the event loop."""

    def __init__(self, options: Adaptive) -> None:
        self._controller = Controller(options.maximum, options.start)
        self._wake: Callable[[], None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def size(self) -> int:
        return self._controller.size

    def has_room(self, waiting: int) -> bool:
        """Tell whether another item may start; if only the pace forbids it, wake the loop later."""
        loop = asyncio.get_running_loop()
        has_room = self._controller.has_room(loop.time(), waiting)
        at = None if has_room else self._controller.wakes_at(loop.time())
        if at is not None and self._timer is None:
            self._timer = loop.call_at(at, self._on_timer)
        return has_room

    def _on_timer(self) -> None:
        # The clock is not checked: a timer may fire early by its resolution, 16 ms on Windows.
        self._timer = None
        self._wake()

    def begin(self, wake: Callable[[], None]) -> "_AdaptiveTicket":
        self._wake = wake
        return _AdaptiveTicket(self._controller, wake)


class _AdaptiveTicket:
    def __init__(self, controller: Controller, wake: Callable[[], None]) -> None:
        self._controller = controller
        self._wake = wake
        self._now = asyncio.get_running_loop().time
        self._slot = controller.begin(self._now())
        self._was_reported = False

    def attempt_finished(self, attempt: Attempt) -> None:
        self._was_reported = True
        self._report(attempt.status, attempt.error)

    def retry_scheduled(self, seconds: float) -> None:
        """Let another item use the place during the wait."""
        self._was_reported = False
        self._controller.waits(self._slot, self._now(), seconds)
        self._wake()

    def ended(self, error: BaseException | None) -> None:
        """Learn from the whole call, if no session reported its attempts."""
        if not self._was_reported:
            status = error.status if isinstance(error, StatusError) else None
            if error is None:
                self._report(200, None)
            else:
                self._report(status, None if status else type(error).__name__)
        self._controller.ended(self._slot)
        self._wake()

    def _report(self, status: int | None, error: str | None) -> None:
        self._controller.attempt_ended(
            self._slot,
            self._now(),
            refused=was_refused(status, error),
            is_429=status == TOO_MANY,
        )
