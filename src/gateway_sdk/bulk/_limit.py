"""How many calls a run makes at once: a fixed number, or the number that the gateway accepts."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway_sdk.bulk._statistics import Alarm, BaseRate, Latency, Slot, Stage
from gateway_sdk.errors import DeadlineExceededError, InvalidArgumentError, ReplyTimeoutError

TOO_MANY: Final = 429

_BUSY: Final = frozenset({408, TOO_MANY, 503, 504})
"""Statuses that may mean too many calls at once."""

_SERVER_ERROR: Final = 500
_TOO_SLOW: Final = (ReplyTimeoutError.__name__, DeadlineExceededError.__name__)

_FALSE_ALARM: Final = 1e-4
"""A drop costs about a hundred attempts (CUSUM: the mean run length is at least 1 / this)."""

_RESOLUTION: Final = 1 / 32
"""The smallest difference to detect: the result is within 5 % of the limit, trials included."""

_PATIENCE: Final = 800
"""Attempts after a trial that failed: at two refusals each, trials cost a share of 1 in 400."""

_NOISE: Final = 1 / 20
"""The share of refusals that is accepted at the start, before the usual share is known."""

_FLOOD: Final = 1 / 5
"""The share of refusals that is surely too high: four times the noise."""

_CLEAR: Final = 1 / 9
"""The share of refusals that looks more like the noise than like a flood."""

_MOST_NOISE: Final = 1 / 16
"""The largest share of refusals that counts as noise; at more, the number of calls drops."""

_FEWER: Final = 0.75
"""The largest ratio of two numbers of calls whose latencies are compared."""

_CROWDS: Final = 1 / 2
"""The power of the number of calls with which latency grows, from which more calls do not help."""

_HELPS: Final = 5 / 4
"""The same, from which fewer calls give more throughput; a client that is busy itself has 1."""

_STOPS: Final = 2
"""Stops that prove a limit of calls per second; a single one can mean a lower limit at once."""

_FEW: Final = 6
"""Calls at once of which all but one may be refused because they are too many for the gateway."""

_WAIT: Final = 1.0
"""Seconds. Six waits in a row that are so long are of a Retry-After: of six random ones, one is
shorter."""

_SECONDS: Final = 3
"""Seconds to keep a rate after a refusal: a trial's pause then costs a quarter of the time."""

_LATE: Final = 0.05
"""Seconds that a call may be late without delaying the others: busy machines have late timers."""

_LATELY: Final = 5.0
"""Seconds of successes that tell a rate."""

_KEPT: Final = 5000
"""The largest number of times of successes that are kept."""

_ALARM: Final = -math.log(_FALSE_ALARM)


def was_refused(status: int | None, error: str | None) -> bool | None:
    """Tell whether an attempt was too much for the gateway; None if unknown."""
    if status in _BUSY or error in _TOO_SLOW:
        return True
    return False if status is not None and status < _SERVER_ERROR else None


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


class Pace:
    """Limits the calls per second, if the gateway limits them and not the calls at once."""

    def __init__(self) -> None:
        self.rate: float | None = None  # None while there is no limit
        self._good = 0.0  # a rate without refusals
        self._step = 2 * _RESOLUTION
        self._next = 0.0  # when the next call may start
        self._changed = 0.0  # calls that began before say nothing of the rate
        self._need = 0.0  # successes before the next trial
        self._waits: deque[float] = deque([0.0], maxlen=6)  # the last ones after refusals
        self._stops = 0
        self._was_lowered = False  # since the last success
        self._taken: deque[float] = deque(maxlen=_KEPT)

    def wait_until(self, now: float) -> float | None:
        if self.rate is None or now >= self._next:
            return None
        return self._next

    def begin(self, now: float) -> None:
        if self.rate is not None:
            self._next = max(self._next, now - _LATE) + 1 / self.rate
            # Places of retries: a stop of all calls would take them for a long time.
            self._next = min(self._next, now + max(_SECONDS, 1 / self.rate))

    def taken(self, now: float) -> None:
        self._taken.append(now)
        self._was_lowered = False
        self._need -= 1
        if self.rate is not None and self._need <= 0:
            self._good = self.rate
            self._go_to(self._good * (1 + self._step), now, seconds=1)
            self._step = min(1.0, 2 * self._step)

    def refused(self, began: float, now: float) -> None:
        if self.rate is None or began < self._changed:
            return
        rate, self._step = self.rate, 2 * _RESOLUTION
        if rate <= self._good and not self._was_lowered:
            self._was_lowered = True
            lower = min(rate * (1 - _RESOLUTION), (self._average(now) + rate) / 2)
            self._good = max(rate / 2, lower)
        self._go_to(self._good, now + self._wait, seconds=_SECONDS)

    def waits(self, now: float, seconds: float) -> None:
        self.begin(now)
        self._waits.append(seconds)

    def stopped(self, now: float) -> None:
        """Note that all calls are refused: twice, with waits that were asked for, prove a rate."""
        self._stops += 1
        if self._stops >= _STOPS and min(self._waits) >= _WAIT:
            self.limit(now)

    def limit(self, now: float) -> None:
        """Limit the rate to what was taken lately, because it is no number of calls at once."""
        if self.rate is None and (average := self._average(now)):
            self._good = average
            self._go_to(average, now + self._wait, seconds=1)

    @property
    def _wait(self) -> float:
        return max(_WAIT, min(self._waits))

    def _average(self, now: float) -> float:
        since = max(now - _LATELY, self._taken[0] if self._taken else now)
        return sum(time > since for time in self._taken) / (now - since) if now > since else 0.0

    def _go_to(self, rate: float, since: float, *, seconds: float) -> None:
        self.rate, self._changed = rate, since
        self._need = max(20.0, seconds * rate)


class Controller(FixedLimit):
    """Finds and keeps the number of calls at once that is accepted."""

    def __init__(self, maximum: int, start: int) -> None:
        super().__init__(maximum)
        self._good = 1  # was accepted
        self._bad: int | None = None  # was too high
        self._step = 1
        self._slots: set[Slot] = set()
        self._sleeping: set[Slot] = set()
        self._duration = 0.0
        self._base = BaseRate()
        self._pace = Pace()
        self._latencies: dict[int, Latency] = {}
        self._crowded: tuple[Stage, int | None] | None = None
        self._patience = 0  # attempts before the next trial
        self._is_suspected = False  # whether the last block was crowded
        self._alone = Alarm()  # of attempts that began with no other on its way
        self._last_end = 0.0  # of an attempt
        self._act = self._start  # how the next attempt is judged: one of four phases
        self._stage = Stage(min(start, maximum), 0.0)

    @property
    def size(self) -> int:
        return self._stage.size

    def has_room(self, now: float, waiting: int) -> bool:
        if self._is_stopped:
            return False  # nearly all are refused: wait for their retries first
        stage, here = self._stage, len(self._slots) + waiting
        if self._sleeping and here >= stage.size:
            soon = now + 2 * self._duration
            here -= sum(slot.began > soon for slot in self._sleeping)
        if here >= stage.size:
            stage.is_used = stage.is_used or not waiting
            return False
        return self.wakes_at(now) is None

    def wakes_at(self, now: float) -> float | None:
        return self._pace.wait_until(now)

    def begin(self, now: float) -> Slot:
        slot = Slot(now, self._stage)
        self._slots.add(slot)
        self._pace.begin(now)
        return slot

    @property
    def _is_stopped(self) -> bool:
        # Those that wait after a cut stop no other item.
        waiting = sum(slot.was_refused for slot in self._sleeping)
        return waiting >= max(2, self.size - 1)

    def waits(self, slot: Slot, now: float, seconds: float) -> None:
        """Free the place of an item that waits for its retry."""
        was_stopped = self._is_stopped
        slot.began, slot.was_asleep = now + seconds, True
        self._sleeping.add(slot)
        if not slot.was_refused:  # a cut teaches nothing
            self._pace.begin(now)
            return
        self._pace.waits(now, seconds)
        if slot.is_429 and (slot.was_good or self.size > _FEW) and self._is_stopped > was_stopped:
            self._pace.stopped(now)

    def ended(self, slot: Slot) -> None:
        self._slots.discard(slot)
        self._sleeping.discard(slot)

    def attempt_ended(self, slot: Slot, now: float, *, refused: bool | None, is_429: bool) -> None:
        """Learn from an attempt that has ended; None is neither a refusal nor a success."""
        self._sleeping.discard(slot)
        slot.was_refused, slot.is_429 = refused is True, is_429
        # Before this refusal lowers the number.
        slot.was_good = self.size <= self._good and self._stage.fine >= 2 * self.size
        if refused is not None:
            if (is_429 or not refused) and self._was_alone(slot):
                evidence = self._alone.add(refused=refused, usual=_NOISE, more=_FLOOD)
                if evidence >= _ALARM:  # so it is not the number of calls
                    self._pace.limit(now)
            self._learn_from(slot, now, refused=refused, is_429=is_429)
        self._last_end = now
        # The item may make another call, which begins now.
        slot.began, slot.stage, slot.was_asleep = now, self._stage, False

    def _learn_from(self, slot: Slot, now: float, *, refused: bool, is_429: bool) -> None:
        if not refused:
            self._succeeded(slot, now)
        elif is_429:
            self._pace.refused(slot.began, now)
        if self._counts(slot):
            self._stage.refused += refused
            self._stage.fine += not refused
            self._act(now, refused=refused)

    def _was_alone(self, slot: Slot) -> bool:
        others = (other for other in self._slots if other is not slot)
        return self._last_end <= slot.began and all(other.began > slot.began for other in others)

    def _succeeded(self, slot: Slot, now: float) -> None:
        seconds = now - slot.began
        self._duration += (0.1 if self._duration else 1.0) * (seconds - self._duration)
        if not slot.was_asleep:  # also for an earlier stage: its slow replies come late
            slot.stage.latency.add(seconds)
        self._pace.taken(now)

    def _counts(self, slot: Slot) -> bool:
        """Tell whether an attempt counts for the current number of calls."""
        if slot.was_asleep:
            # The session chose the time of this retry, so there may be one call too many.
            on_wire = len(self._slots) - len(self._sleeping)
            return slot.began >= self._stage.since and on_wire <= self.size
        return slot.stage.size == self.size

    @property
    def _excess(self) -> float:
        """The excess of refusals to detect: the share that one call too many would cause."""
        return max(_RESOLUTION, 1 / self.size)

    @property
    def _unit(self) -> int:
        return max(1, int(self._good * _RESOLUTION))

    def _is_flooded(self, *, refused: bool) -> bool:
        """Whether far too many are refused: for when the usual share is not known."""
        return self._stage.alarm.add(refused=refused, usual=_NOISE, more=_FLOOD) >= _ALARM

    def _is_unusual(self, *, refused: bool) -> bool:
        usual = self._base.rate
        more = min(0.9, usual + self._excess)
        return self._stage.alarm.add(refused=refused, usual=usual, more=more) >= _ALARM

    def _start(self, now: float, *, refused: bool) -> None:
        """Double the number with each round trip."""
        stage = self._stage
        if self._is_flooded(refused=refused):
            self._bad, self._good = stage.size, max(1, stage.size // 2)
            self._go_to(self._good, self._learn, now)
        elif stage.is_used and stage.fine >= stage.size / 2 and stage.share < _CLEAR:
            if self._is_crowded():
                self._thin_out(now)
                return
            self._keep()
            self._good = stage.size
            more = stage.size < self._maximum
            self._go_to(2 * stage.size, self._start if more else self._hold, now)

    def _learn(self, now: float, *, refused: bool) -> None:
        """Learn the share of refusals at a good number of calls, then try more calls."""
        stage = self._stage
        if self._is_flooded(refused=refused):
            self._drop(stage.alarm.share, now)
        elif stage.ended >= 4 / self._excess:
            if stage.share > _MOST_NOISE:
                self._drop(stage.share, now)
                return
            self._keep(replace=True)
            if self._still_crowded():
                self._thin_out(now)
            else:
                self._look_for_more(now)

    def _try(self, now: float, *, refused: bool) -> None:
        """Keep a higher number of calls until it is clear whether the gateway refuses more."""
        stage = self._stage
        if self._is_unusual(refused=refused):
            self._fail(now)
        elif stage.ended < 8 / self._excess:
            return
        elif stage.share - self._base.rate > self._excess / 2:
            self._fail(now)
        elif stage.is_used:
            if self._is_crowded():
                self._fail(now)
                return
            self._keep()
            self._good, self._patience = stage.size, 0
            self._look_for_more(now)

    def _hold(self, now: float, *, refused: bool) -> None:
        """Keep the number that is known to be good, and judge each block of attempts alone."""
        stage = self._stage
        if self._is_unusual(refused=refused):
            self._drop(stage.alarm.share, now)
        elif stage.ended < 8 / self._excess:
            return
        elif (is_crowded := self._is_crowded()) and self._is_suspected:
            self._thin_out(now)
        else:
            # The next block is judged alone: this one may have begun before replies took longer.
            self._is_suspected = is_crowded
            if not is_crowded:
                self._keep()
            self._patience -= stage.ended
            if self._patience <= 0 and stage.is_used:
                self._look_for_more(now)
            else:
                self._go_to(self._good, self._hold, now)

    def _drop(self, share: float, now: float) -> None:
        """Lower the number by the share of refusals, by at least an eighth and at most a half."""
        self._is_suspected = False
        self._bad = self.size
        self._good = max(1, min(self.size - 1, int(self.size * (1 - min(0.5, max(0.125, share))))))
        self._step = 1
        self._crowded = None
        self._go_to(self._good, self._learn, now)

    def _fail(self, now: float) -> None:
        self._bad, self._step, self._patience = self.size, 1, _PATIENCE
        self._look_for_more(now)

    def _look_for_more(self, now: float) -> None:
        """Try a number halfway to the one that was too high, or a higher one if that is reached."""
        if self._good >= self._maximum or (self._bad and self._bad <= self._good + self._unit):
            self._bad, self._step = None, 1
            self._go_to(self._good, self._hold, now)
        elif self._bad:
            self._go_to((self._good + self._bad) // 2, self._try, now)
        else:
            self._go_to(self._good + max(self._step, self._unit), self._try, now)
            self._step *= 2

    def _keep(self, *, replace: bool = False) -> None:
        """Keep the statistics of a good number of calls."""
        self._base.add(self._stage.refused, self._stage.ended, replace=replace)
        self._latencies[self.size] = self._stage.latency

    def _is_crowded(self) -> bool:
        """Whether replies take so much longer than with fewer calls that more calls do not help."""
        fewer = max((size for size in self._latencies if size <= _FEWER * self.size), default=None)
        if fewer is None:
            return False
        growth = math.log(self.size / fewer)
        return self._stage.latency.is_slower_than(self._latencies[fewer], _CROWDS * growth)

    def _thin_out(self, now: float) -> None:
        """Halve the number, to see whether replies become faster."""
        self._is_suspected = False
        self._crowded = self._stage, self._bad
        self._bad, self._good = self.size, max(1, self.size // 2)
        self._latencies = {self.size: self._stage.latency}  # earlier ones may be outdated
        self._go_to(self._good, self._learn, now)

    def _still_crowded(self) -> bool:
        """Whether halving made replies faster; if not, they were slow for another reason."""
        if self._crowded is None:
            return False
        before, bad = self._crowded
        self._crowded = None
        growth = math.log(before.size / self.size)
        if before.latency.is_slower_than(self._stage.latency, _HELPS * growth):
            return self.size > 1
        self._bad = bad
        return False

    def _go_to(self, size: int, act: Callable[..., None], now: float) -> None:
        size = max(1, min(size, self._maximum))
        # The evidence of refusals outlasts a block in which it was not enough.
        alarm = self._stage.alarm if act == self._act == self._hold else None
        self._act, self._stage = act, Stage(size, now, alarm)
