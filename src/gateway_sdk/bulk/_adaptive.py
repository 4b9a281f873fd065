"""Find the number of calls at once that the gateway accepts."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gateway_sdk.bulk._controller import Controller
from gateway_sdk.bulk._limit import TOO_MANY, Limit, was_refused
from gateway_sdk.errors import InvalidArgumentError, StatusError
from gateway_sdk.outcome import Attempt


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


class Tuner(Limit):
    """Passes events to a controller, with the times of the event loop."""

    def __init__(self, options: Adaptive) -> None:
        self._controller = Controller(options.maximum, options.start)
        self._wake: Callable[[], None] = lambda: None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def size(self) -> int:
        """The number of calls that may be in flight now."""
        return self._controller.size

    def has_room(self, waiting: int) -> bool:
        """Tell whether another item may start; if only the pace forbids it, wake the loop later."""
        loop = asyncio.get_running_loop()
        has_room = self._controller.has_room(loop.time(), waiting)
        at = None if has_room else self._controller.wakes_at(loop.time())
        if at is not None and self._timer is None:
            self._timer = loop.call_at(at, self._ring)
        return has_room

    def _ring(self) -> None:
        # Not told by the clock: a timer may ring early by its resolution, 16 ms on Windows.
        self._timer = None
        self._wake()

    def begin(self, wake: Callable[[], None]) -> "_Ticket":
        """Count an item that starts."""
        self._wake = wake
        return _Ticket(self._controller, wake)


class _Ticket:
    """One item in flight."""

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
        """Let another item use the place during the wait."""
        self._was_told = False
        self._controller.sleeps(self._slot, self._now(), seconds)
        self._wake()

    def ended(self, error: BaseException | None) -> None:
        """Learn from the whole call, if no session reported its attempts."""
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
