"""How many calls a run makes at once: a fixed number, or the number that the gateway accepts."""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway_sdk.bulk._statistics import FLOOD, NOISE, Alarm, BaseRate, Latency, Slot, Stage
from gateway_sdk.errors import DeadlineExceededError, InvalidArgumentError, ReplyTimeoutError

TOO_MANY: Final = 429

_BUSY: Final = frozenset({408, TOO_MANY, 503, 504})
"""Statuses that may mean too many calls at once."""

_SERVER_ERROR: Final = 500
_TOO_SLOW: Final = (ReplyTimeoutError.__name__, DeadlineExceededError.__name__)

_RESOLUTION: Final = 1 / 32
"""The smallest difference to detect: the result is within 5 % of the limit, trials included."""

_PATIENCE: Final = 800
"""Attempts after a trial that failed: at two refusals each, trials cost a share of 1 in 400."""

_FEWER: Final = 0.75
"""The largest ratio of two numbers of calls whose latencies are compared."""

_CROWDS: Final = 1 / 2
"""The power of the number of calls with which latency grows, from which more calls do not help."""

_HELPS: Final = 5 / 4
"""The same, from which fewer calls give more throughput; a client that is busy itself has 1."""

_STOPS: Final = 2
"""Stops that prove a limit of calls per second; a single one can mean a lower limit at once."""

_WAIT: Final = 1.0
"""Seconds after which a refusal of the rate is over; so long a wait was asked for."""

_STUCK: Final = 5.0
"""Seconds without a new call after which one is made beside items that are refused all the time."""

_SECONDS: Final = 3
"""Seconds to keep a rate after a refusal: a trial's pause then costs a quarter of the time."""

_LATE: Final = 0.05
"""Seconds that a call may be late without delaying the others: busy machines have late timers."""

_LATELY: Final = 5.0
"""Seconds of successes that tell a rate."""

_KEPT: Final = 5000
"""The largest number of times of successes that are kept."""


def _was_refused(status: int | None, error: str | None) -> bool | None:
    """Tell whether an attempt was too much for the gateway; None if unknown."""
    if status in _BUSY or error in _TOO_SLOW:
        return True
    return False if status is not None and status < _SERVER_ERROR else None


class FixedLimit:
    """A fixed number of calls; a result that is not yet yielded keeps its place."""

    learns = False
    _slot = Slot(0.0, Stage(1, 0.0, Alarm(), needs=0))  # of all calls

    def __init__(self, maximum: int) -> None:
        self.maximum = self.size = maximum
        self._under_way = 0

    def has_room(self, now: float, waiting: int) -> bool:
        """Tell whether another item may start, while so many results wait."""
        del now
        return self._under_way + waiting < self.maximum

    def wakes_at(self, now: float) -> float | None:
        """Return when there may be room, if that does not depend on the end of calls."""

    def begin(self, now: float) -> Slot:
        del now
        self._under_way += 1
        return self._slot

    def attempt_ended(
        self, slot: Slot, now: float, status: int | None, error: str | None = None
    ) -> None:
        """Learn from an attempt that has ended, with a status or else with an error."""

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
        self._was_lowered = False  # since the last success
        self._taken: deque[float] = deque(maxlen=_KEPT)

    def wait_until(self, now: float) -> float | None:
        return self._next if self.rate is not None and now < self._next else None

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
        self._go_to(self._good, now + _WAIT, seconds=_SECONDS)

    def limit(self, now: float) -> None:
        """Limit the rate to what was taken lately, because it is no number of calls at once."""
        if self.rate is None and (average := self._average(now)):
            self._good = average
            self._go_to(average, now + _WAIT, seconds=1)

    def took(self, count: int, since: float) -> bool:
        """Tell whether there were so many successes."""
        return len(self._taken) >= count and self._taken[-count] > since

    def _average(self, now: float) -> float:
        since = max(now - _LATELY, self._taken[0] if self._taken else now)
        return sum(time > since for time in self._taken) / (now - since) if now > since else 0.0

    def _go_to(self, rate: float, since: float, *, seconds: float) -> None:
        self.rate, self._changed = rate, since
        self._need = max(20.0, seconds * rate)


class Controller(FixedLimit):
    """Finds and keeps the number of calls at once that is accepted."""

    learns = True

    def __init__(self, maximum: int, start: int) -> None:
        super().__init__(maximum)
        self._good = 1  # was accepted
        self._bad: int | None = None  # was too high
        self._step = 1
        self._patience = 0  # attempts before the next trial
        self._slots: set[Slot] = set()
        self._sleeping: set[Slot] = set()
        self._duration = 0.0
        self._began = 0.0  # the last call
        self._base = BaseRate()
        self._pace = Pace()
        self._latencies: dict[int, Latency] = {}
        self._crowded: tuple[Stage, int | None] | None = None
        self._is_suspected = False  # whether the last block was crowded
        self._stops = 0  # of all calls
        self._idle = Alarm()  # of attempts while the gateway served far fewer than it can
        self._go_to(start, self._started, 0.0, needs=start / 2)

    def has_room(self, now: float, waiting: int) -> bool:
        stage, here = self._stage, len(self._slots) + waiting
        if self._sleeping:
            if self._is_stopped and now < self._began + _STUCK:
                return False  # nearly all are refused: wait for their retries first
            if here >= stage.size:
                soon = now + 2 * self._duration
                here -= sum(slot.began > soon for slot in self._sleeping)
        if here >= stage.size:
            stage.is_used = stage.is_used or not waiting
            return False
        return self._pace.wait_until(now) is None

    def wakes_at(self, now: float) -> float | None:
        return self._pace.wait_until(now)

    def begin(self, now: float) -> Slot:
        slot = Slot(now, self._stage)
        self._began = now
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
        self._pace.begin(now)
        if slot.was_odd and seconds >= _WAIT and self._is_stopped > was_stopped:
            self._stops += 1
            if self._stops >= _STOPS:
                self._pace.limit(now)

    def ended(self, slot: Slot) -> None:
        self._slots.discard(slot)
        self._sleeping.discard(slot)

    def attempt_ended(
        self, slot: Slot, now: float, status: int | None, error: str | None = None
    ) -> None:
        refused, is_429 = _was_refused(status, error), status == TOO_MANY
        self._sleeping.discard(slot)
        slot.was_refused = refused is True
        # Whether so many calls were accepted before, and for a whole round now.
        fine = self._stage.ended - self._stage.refused
        slot.was_odd = is_429 and self.size <= self._good and fine >= self.size
        if refused is not None:
            self._learn_from(slot, now, refused=refused, is_429=is_429)
        # The item may make another call, which begins now.
        slot.began, slot.stage, slot.was_asleep = now, self._stage, False

    def _learn_from(self, slot: Slot, now: float, *, refused: bool, is_429: bool) -> None:
        # A success proves nothing while there is no evidence, as nearly always.
        counts = is_429 or (not refused and self._idle.evidence)
        if counts and self._was_idle(slot) and self._idle.add(refused=refused):
            self._pace.limit(now)  # it is not the number of calls
        if not refused:
            self._succeeded(slot, now)
        elif is_429:
            self._pace.refused(slot.began, now)
        if self._counts(slot):
            self._stage.refused += refused
            self._stage.ended += 1
            self._judge(now, refused=refused)

    def _was_idle(self, slot: Slot) -> bool:
        """Whether the gateway served at most half as many calls as it is known to accept."""
        spare = max(1, self._good // 2)
        if self._pace.took(spare, slot.began):
            return False
        spare -= sum(other.began <= slot.began for other in self._slots)  # and itself
        return spare >= 0 and not self._pace.took(spare + 1, slot.began)

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

    def _judge(self, now: float, *, refused: bool) -> None:
        """End a stage with too many refusals, or with enough attempts and the usual ones."""
        stage, (usual, more) = self._stage, self._shares
        if stage.alarm.add(refused=refused, usual=usual, more=more):
            self._refuse(now, stage.alarm.share)
        elif stage.is_used and stage.ended >= stage.needs:
            share = stage.refused / stage.ended
            if share < (usual + more) / 2 or self._act == self._held:
                self._act(now)
            elif self._act != self._started:
                self._refuse(now, share)

    def _refuse(self, now: float, share: float) -> None:
        """End a trial, or lower the number by the share of refusals, by an eighth to a half."""
        self._bad, self._step = self.size, 1
        if self._act == self._tried:
            self._patience = _PATIENCE
            self._look_for_more(now)
            return
        self._good = max(1, int(self.size * (1 - min(0.5, max(0.125, share)))))
        self._crowded, self._is_suspected = None, False
        self._learn(now)

    def _started(self, now: float) -> None:
        """Double the number with each round trip."""
        if self._is_crowded():
            self._thin_out(now)
            return
        self._keep()
        self._good = self.size
        if self.size < self.maximum:
            self._go_to(2 * self.size, self._started, now, needs=self.size)
        else:
            self._hold(now)

    def _learned(self, now: float) -> None:
        """The share of refusals at a good number of calls is known: try more calls."""
        self._keep(replace=True)
        if self._still_crowded():
            self._thin_out(now)
        else:
            self._look_for_more(now)

    def _tried(self, now: float) -> None:
        """A higher number of calls is not refused more."""
        if self._is_crowded():
            self._refuse(now, 0.0)
            return
        self._keep()
        self._good, self._patience = self.size, 0
        self._look_for_more(now)

    def _held(self, now: float) -> None:
        """Keep the number that is known to be good, and judge each block of attempts alone."""
        was_suspected, self._is_suspected = self._is_suspected, self._is_crowded()
        if self._is_suspected and was_suspected:
            # The block before this one may have begun before replies took longer.
            self._thin_out(now)
            return
        if not self._is_suspected:
            self._keep()
        self._patience -= self._stage.ended
        if self._patience <= 0:
            self._look_for_more(now)
        else:
            self._hold(now)

    def _look_for_more(self, now: float) -> None:
        """Try a number halfway to the one that was too high, or a higher one if that is reached."""
        unit = max(1, int(self._good * _RESOLUTION))
        if self._good >= self.maximum or (self._bad and self._bad <= self._good + unit):
            self._bad, self._step = None, 1
            self._hold(now)
            return
        if self._bad:
            size = (self._good + self._bad) // 2
        else:
            size = self._good + max(self._step, unit)
            self._step *= 2
        self._go_to(size, self._tried, now)

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
        self._learn(now)

    def _still_crowded(self) -> bool:
        """Whether halving made replies faster; if not, they were slow for another reason."""
        if self._crowded is None:
            return False
        (before, bad), self._crowded = self._crowded, None
        growth = math.log(before.size / self.size)
        if before.latency.is_slower_than(self._stage.latency, _HELPS * growth):
            return self.size > 1
        self._bad = bad
        return False

    def _learn(self, now: float) -> None:
        self._go_to(self._good, self._learned, now, needs=4 / max(_RESOLUTION, 1 / self._good))

    def _hold(self, now: float) -> None:
        # The evidence of refusals outlasts a block in which it was not enough.
        alarm = self._stage.alarm if self._act == self._held else Alarm()
        self._go_to(self._good, self._held, now, alarm=alarm)

    def _go_to(
        self,
        size: int,
        act: Callable[[float], None],
        now: float,
        *,
        needs: float | None = None,
        alarm: Alarm | None = None,
    ) -> None:
        self.size = size = max(1, min(size, self.maximum))
        excess = max(_RESOLUTION, 1 / size)
        self._act, self._stage = act, Stage(size, now, alarm or Alarm(), needs=needs or 8 / excess)
        # The usual share of refusals, and the one that a call too many would cause.
        self._shares = NOISE, FLOOD
        if act not in (self._started, self._learned):
            self._shares = self._base.rate, min(0.9, self._base.rate + excess)
