"""Find out how many calls the gateway takes at once, and stay there."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gateway_sdk.bulk._controller import Controller
from gateway_sdk.bulk._limit import TOO_MANY, Limit, was_refused
from gateway_sdk.errors import InvalidArgumentError, StatusError
from gateway_sdk.outcome import Attempt


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Have a run find out how many calls the gateway takes at once.

    Attributes:
        maximum: Calls under way at once at the most; a session's `max_connections` bounds too.
        start: How many it begins with.
    """

    maximum: int = 100
    start: int = 4

    def __post_init__(self) -> None:
        """Refuse what is no number of calls."""
        for name in ("maximum", "start"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise InvalidArgumentError(f"{name} must be a whole number of at least 1")


class Tuner(Limit):
    """Tells a controller what sessions tell, by the clock of the event loop."""

    def __init__(self, options: Adaptive) -> None:
        self._controller = Controller(options.maximum, options.start)
        self._wake: Callable[[], None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def size(self) -> int:
        """How many calls may be under way now."""
        return self._controller.size

    def has_room(self, waiting: int) -> bool:
        """Tell whether one more may begin; if only the pace is against it, say so when it may."""
        loop = asyncio.get_running_loop()
        has_room = self._controller.has_room(loop.time(), waiting)
        at = None if has_room else self._controller.wakes_at(loop.time())
        if at is not None and (self._timer is None or self._timer.when() <= loop.time()):
            self._timer = loop.call_at(at, self._wake)
        return has_room

    def begin(self, wake: Callable[[], None]) -> "_Ticket":
        """Count an item that begins."""
        self._wake = wake
        return _Ticket(self._controller, wake)


class _Ticket:
    """One item under way."""

    def __init__(self, controller: Controller, wake: Callable[[], None]) -> None:
        self._controller = controller
        self._wake = wake
        self._now = asyncio.get_running_loop().time
        self._slot = controller.begin(self._now())
        self._was_told = False

    def attempt_finished(self, attempt: Attempt) -> None:
        """Learn from a request."""
        self._was_told = True
        self._heard(attempt.status, attempt.error)

    def retry_scheduled(self, seconds: float) -> None:
        """Give the place to another item meanwhile."""
        self._was_told = False
        self._controller.sleeps(self._slot, self._now(), seconds)
        self._wake()

    def ended(self, error: BaseException | None) -> None:
        """Learn from the whole call what no session has told."""
        if not self._was_told:
            status = error.status if isinstance(error, StatusError) else None
            if error is None:
                self._heard(200, None)
            else:
                self._heard(status, None if status else type(error).__name__)
        self._controller.ended(self._slot)

    def _heard(self, status: int | None, error: str | None) -> None:
        self._controller.heard(
            self._slot,
            self._now(),
            refused=was_refused(status, error),
            is_429=status == TOO_MANY,
        )
