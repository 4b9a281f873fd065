"""The calls per second, for a gateway that limits them and not the calls at once."""

from collections import deque
from typing import Final

MOST_IN_A_ROW: Final = 6
"""Refusals in a row that surely mean a stop: 1 in 10 000 if one call in five is refused (0.2 ** 6).

Of fewer calls at once, as many as there are mean it, but at least two.
"""

_STOPS: Final = 2
"""Stops that prove a rate limit: a single one can mean a lower limit of calls at once."""

_WAIT: Final = 1.0
"""Seconds. A row of waits so long is of a Retry-After: of six random waits, one is shorter."""

_STEP: Final = 1 / 32
"""The resolution, the same as for the number of calls."""

_SECONDS: Final = 3
"""Seconds to keep a rate after a refusal: a trial's pause then costs a quarter of the time."""

_LATE: Final = 0.05
"""Seconds that a call may be late without delaying the others: busy machines have late timers."""

_REACHED: Final = 0.75
"""The share of a rate that must be reached; replies to calls from before the trial count too."""

_LATELY: Final = 5.0
"""Seconds of successes that tell a rate."""

_KEPT: Final = 5000
"""The largest number of times of successes that are kept."""


class Pace:
    """Limits the calls per second, after a Retry-After has stopped all calls twice."""

    def __init__(self) -> None:
        self.rate: float | None = None  # None while there is no limit
        self._good = 0.0  # a rate without refusals
        self._bad: float | None = None  # a rate with refusals
        self._step = 4 * _STEP
        self._next = 0.0  # when the next call may start
        self._changed = 0.0
        self._need = 0.0  # successes before the next trial
        self._got = 0
        self._row = 0
        self._enough = 2
        self._first = 0.0  # when the first refused attempt of the row began
        self._was_fine = False  # whether the number of calls was good before the row
        self._last_taken = -1.0
        # The last ones after refusals.
        self._waits: deque[float] = deque([0.0], maxlen=MOST_IN_A_ROW)
        self._is_stopped = False
        self._stops = 0
        self._taken: deque[float] = deque(maxlen=_KEPT)

    @property
    def is_stopped(self) -> bool:
        """Whether the gateway accepts nothing, so that it is better to wait as long as it asks."""
        return self._row >= self._enough

    def wait_until(self, now: float) -> float | None:
        if self.rate is None or now >= self._next:
            return None
        return self._next

    def begin(self, now: float) -> None:
        if self.rate is not None:
            self._next = max(self._next, now - _LATE) + 1 / self.rate

    def taken(self, began: float, now: float) -> None:
        self._last_taken = max(self._last_taken, began)
        if began >= self._first:
            self._row, self._is_stopped = 0, False
        self._taken.append(now)
        if self.rate is None:
            return
        self._got += 1
        if self._got >= self._need:
            if self._got >= _REACHED * self.rate * (now - self._changed):
                self._good = self.rate
                self._try_more(now)
            else:
                self._go_to(self.rate, now, seconds=1)

    def _try_more(self, now: float) -> None:
        """Try a rate halfway to the refused one, or a higher one if the two are almost equal."""
        if self._bad is not None and self._bad <= self._good * (1 + 2 * _STEP):
            self._bad, self._step = None, 2 * _STEP
        if self._bad is not None:
            rate = (self._good + self._bad) / 2
        else:
            rate = self._good * (1 + self._step)
            self._step = min(1.0, 2 * self._step)
        self._go_to(rate, now, seconds=1)

    def refused(self, began: float, now: float, *, is_429: bool, was_fine: bool, row: int) -> None:
        """Learn from a refusal; *was_fine*: this number of calls at once was accepted before."""
        if began < self._last_taken:
            return
        if self._row == 0:
            self._first, self._was_fine = began, was_fine
        self._enough = row
        self._row += 1
        if not is_429:
            return
        if self.is_stopped and not self._is_stopped:
            self._stop(now)
        if self.rate is not None and began >= self._changed:
            self._lower(self.rate, now)

    def waits(self, now: float, seconds: float) -> None:
        self.begin(now)
        self._waits.append(seconds)

    def _stop(self, now: float) -> None:
        """Handle a stop: the second one without another reason proves a rate limit."""
        self._is_stopped = True
        self._stops += self._was_fine
        if self._stops >= _STOPS and min(self._waits) >= _WAIT:
            self.limit(now)

    def limit(self, now: float) -> None:
        """Limit the rate to what was taken lately, because it is no number of calls at once."""
        if self.rate is None and (average := self._average(now)):
            self._good = average
            self._go_to(average, now, seconds=1)
            self._changed = now + self._wait

    @property
    def _wait(self) -> float:
        return max(_WAIT, min(self._waits))

    def _average(self, now: float) -> float:
        since = max(now - _LATELY, self._taken[0] if self._taken else now)
        return sum(time > since for time in self._taken) / (now - since) if now > since else 0.0

    def _lower(self, rate: float, now: float) -> None:
        self._bad = rate
        if rate <= self._good:
            self._good = max(rate / 2, min(rate * (1 - _STEP), (self._average(now) + rate) / 2))
        self._go_to(self._good, now, seconds=_SECONDS)
        self._changed = now + self._wait  # refusals until then are of the old rate

    def _go_to(self, rate: float, now: float, *, seconds: float) -> None:
        self.rate = rate
        self._changed = now
        self._need = max(20.0, seconds * rate)
        self._got = 0
