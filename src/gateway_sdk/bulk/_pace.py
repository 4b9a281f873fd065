"""How many calls a second begin, where the gateway bounds that and not how many are under way."""

from collections import deque
from typing import Final

_ROW: Final = 6
"""So many refusals in a row say that nothing gets through: a chance of 1 in 10 000 where even one
in five is refused (0.2 ** 6)."""

_STOPS: Final = 2
"""A single one comes of a limit of calls at once that has become lower."""

_WAIT: Final = 1.0
"""Seconds of waiting that only a Retry-After asks for: it counts in whole seconds, and at least
one of six random waits before a first retry is shorter."""

_STEP: Final = 1 / 32
"""The resolution, as that of the number of calls."""

_SECONDS: Final = 3
"""Seconds that a rate is kept after a refusal: a try costs a second's pause at the most, and so
no more than a quarter while the rate is sought."""

_LATE: Final = 0.05
"""Seconds that a call may be late, as timers on a busy machine are, without slowing the others."""

_REACHED: Final = 0.75
"""The share of a rate that must have been reached to call it good: the replies to what began
before it was tried are among those that count."""

_KEPT: Final = 5000
"""Times of successes that are kept, at the most."""


class Pace:
    """Bounds the calls per second, from the second time on that a Retry-After stopped everything.

    The rate lies between what was taken from one stop to the next, pauses included, and what was
    taken in a time as long as the wait that was asked for. It is narrowed down by trying.

    Attributes:
        rate: Calls per second; None while there is no bound.
    """

    def __init__(self) -> None:
        self.rate: float | None = None
        self._good = 0.0  # was kept without a refusal
        self._bad: float | None = None  # was refused
        self._step = _STEP
        self._next = 0.0  # when the next call may begin
        self._changed = 0.0
        self._need = 0.0  # successes until another rate is tried
        self._got = 0
        self._is_held = False  # if no call ever waits for it, the rate was not tried
        self._row = 0
        self._first = 0.0  # when the first refused one of the row began
        self._was_fine = False  # whether the number of calls was good until then
        self._last_taken = -1.0
        self._wait = 0.0  # the shortest of the row
        self._asked = 0.0  # seconds of the Retry-After, about
        self._is_stopped = False
        self._stops = 0
        self._stopped: float | None = None
        self._count = 0  # successes since then
        self._taken: deque[float] = deque(maxlen=_KEPT)

    @property
    def is_stopped(self) -> bool:
        """Whether nothing gets through: then it is better to wait for what was asked for."""
        return self._row >= _ROW

    def wait_until(self, now: float) -> float | None:
        """Return when the next call may begin; None if it may now."""
        if self.rate is None or now >= self._next:
            return None
        self._is_held = True
        return self._next

    def begin(self, now: float) -> None:
        """Count a call that begins, or will begin again."""
        if self.rate is not None:
            self._next = max(self._next, now - _LATE) + 1 / self.rate

    def taken(self, began: float, now: float) -> None:
        """Learn from a success."""
        self._last_taken = max(self._last_taken, began)
        if began >= self._first:
            self._row, self._is_stopped = 0, False
        self._count += 1
        self._taken.append(now)
        if self.rate is None:
            return
        self._got += 1
        if self._got >= self._need and self._is_held:
            if self._got >= _REACHED * self.rate * (now - self._changed):
                self._good = self.rate
                self._try_more(now)
            else:
                self._go_to(self.rate, now, seconds=1)

    def _try_more(self, now: float) -> None:
        """Go halfway to what was refused, or beyond it if that is no more."""
        if self._bad is not None and self._bad <= self._good * (1 + 2 * _STEP):
            self._bad, self._step = None, 2 * _STEP
        if self._bad is not None:
            rate = (self._good + self._bad) / 2
        else:
            rate = self._good * (1 + self._step)
            self._step = min(1.0, 2 * self._step)
        self._go_to(rate, now, seconds=1)

    def refused(self, began: float, now: float, *, is_429: bool, was_fine: bool) -> None:
        """Learn from a refusal.

        Args:
            began: When the attempt began.
            now: When it ended.
            is_429: Whether its status was that.
            was_fine: Whether the number of calls under way had been taken for a while.
        """
        if began < self._last_taken:
            return
        if self._row == 0:
            self._first, self._was_fine = began, was_fine
        self._row += 1
        if not is_429:
            return
        if self.is_stopped and not self._is_stopped:
            self._stop(now)
        if self.rate is not None and began >= self._changed:
            self._lower(self.rate, now)

    def sleeps(self, now: float, seconds: float) -> None:
        """Hear how long an attempt that was refused waits."""
        self.begin(now)
        self._wait = seconds if self._row <= 1 else min(self._wait, seconds)

    def _stop(self, now: float) -> None:
        """Nothing gets through: if that came twice without another reason, it is a rate limit."""
        self._is_stopped = True
        self._stops += self._was_fine
        stopped, count = self._stopped, self._count
        self._stopped, self._count = self._first, 0
        is_proven = self._stops >= _STOPS and self._wait >= _WAIT
        if self.rate is not None or stopped is None or not is_proven or self._first <= stopped:
            return
        self._good = count / (self._first - stopped)
        self._asked = self._wait
        highest = sum(time > now - self._asked for time in self._taken) / self._asked
        self._bad = max(highest, self._good) * (1 + 2 * _STEP)
        self._go_to(max(self._good, highest * (1 - _STEP)), now, seconds=1)

    def _lower(self, rate: float, now: float) -> None:
        self._bad = rate
        if rate <= self._good:
            since = now - (self._stopped or 0.0)
            average = self._count / since if since > 0 else rate
            self._good = max(rate / 2, min(rate * (1 - _STEP), (average + rate) / 2))
        self._stopped, self._count = now, 0
        self._go_to(self._good, now, seconds=_SECONDS)
        self._changed = now + self._asked  # what is refused until then says nothing new

    def _go_to(self, rate: float, now: float, *, seconds: float) -> None:
        self.rate = rate
        self._changed = now
        self._need = max(20.0, seconds * rate)
        self._got = 0
        self._is_held = False
