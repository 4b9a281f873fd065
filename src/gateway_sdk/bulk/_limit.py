"""How many calls a run makes at once: a fixed number, or `_controller.py` finds it."""

from dataclasses import dataclass
from typing import Final

from gateway_sdk.bulk._statistics import Stage
from gateway_sdk.errors import DeadlineExceededError, InvalidArgumentError, ReplyTimeoutError

TOO_MANY: Final = 429

_BUSY: Final = frozenset({408, TOO_MANY, 503, 504})
"""Statuses that may mean too many calls at once."""

_SERVER_ERROR: Final = 500
_TOO_SLOW: Final = (ReplyTimeoutError.__name__, DeadlineExceededError.__name__)


def was_refused(status: int | None, error: str | None) -> bool | None:
    """Tell whether an attempt was too much for the gateway; None if unknown."""
    if status in _BUSY or error in _TOO_SLOW:
        return True
    return False if status is not None and status < _SERVER_ERROR else None


class Slot:
    """The place of an item among the calls at once."""

    def __init__(self, began: float, stage: Stage) -> None:
        self.began = began  # its attempt; in the future if it waits for a retry
        self.stage = stage  # of its first attempt
        self.was_asleep = False  # True from its first retry on
        self.was_refused = False  # its last attempt


class FixedLimit:
    """A fixed number of calls; a result that is not yet yielded keeps its place."""

    _slot = Slot(0.0, Stage(1, 0.0))  # the same for all calls, because nothing is learned

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._under_way = 0

    @property
    def size(self) -> int:
        return self._maximum

    def has_room(self, now: float, waiting: int) -> bool:
        """Tell whether another item may start, while so many results wait."""
        del now
        return self._under_way + waiting < self._maximum

    def wakes_at(self, now: float) -> float | None:
        """Return when there may be room, if that does not depend on the end of calls."""

    def begin(self, now: float) -> Slot:
        del now
        self._under_way += 1
        return self._slot

    def attempt_ended(
        self, slot: Slot, now: float, *, refused: bool | None, is_429: bool
    ) -> None: ...

    def waits(self, slot: Slot, now: float, seconds: float) -> None: ...

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
