"""The number of calls that may be in flight at once: fixed, or found by the controller.

It also decides which replies mean that there are too many.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway_sdk.bulk._controller import Controller, Slot
from gateway_sdk.bulk._statistics import Stage
from gateway_sdk.errors import DeadlineExceededError, InvalidArgumentError, ReplyTimeoutError

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


class FixedLimit:
    """A fixed number of calls; a result that is not yet yielded keeps its place."""

    _slot = Slot(0.0, Stage(1, 0.0))  # the same for all calls, because nothing is learned

    def __init__(self, size: int) -> None:
        self._size = size
        self._under_way = 0

    @property
    def size(self) -> int:
        return self._size

    def has_room(self, waiting: int, wake: Callable[[], None]) -> bool:
        """Tell whether another item may start; *wake* is called if that changes with the time."""
        del wake
        return self._under_way + waiting < self._size

    def begin(self) -> Slot:
        self._under_way += 1
        return self._slot

    def attempt_ended(self, slot: Slot, status: int | None, error: str | None) -> None: ...

    def waits(self, slot: Slot, seconds: float) -> None: ...

    def ended(self, slot: Slot) -> None:
        del slot
        self._under_way -= 1


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


class AdaptiveLimit(FixedLimit):
    """Passes events to a controller, with the times of the event loop."""

    def __init__(self, options: Adaptive) -> None:
        super().__init__(options.maximum)
        self._controller = Controller(options.maximum, options.start)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def size(self) -> int:
        return self._controller.size

    def has_room(self, waiting: int, wake: Callable[[], None]) -> bool:
        loop = asyncio.get_running_loop()
        if self._controller.has_room(loop.time(), waiting):
            return True
        at = self._controller.wakes_at(loop.time())
        if at is not None and self._timer is None:
            self._timer = loop.call_at(at, self._on_timer, wake)
        return False

    def _on_timer(self, wake: Callable[[], None]) -> None:
        # The clock is not checked: a timer may fire early by its resolution, 16 ms on Windows.
        self._timer = None
        wake()

    def begin(self) -> Slot:
        return self._controller.begin(asyncio.get_running_loop().time())

    def attempt_ended(self, slot: Slot, status: int | None, error: str | None) -> None:
        now, refused = asyncio.get_running_loop().time(), was_refused(status, error)
        self._controller.attempt_ended(slot, now, refused=refused, is_429=status == TOO_MANY)

    def waits(self, slot: Slot, seconds: float) -> None:
        """Let another item use the place during the wait."""
        self._controller.waits(slot, asyncio.get_running_loop().time(), seconds)

    def ended(self, slot: Slot) -> None:
        self._controller.ended(slot)
