"""Finds the number of calls at once, from what the gateway accepts and refuses. No I/O."""

import math
from collections.abc import Callable
from typing import Final

from gateway_sdk.bulk._limit import FixedLimit, Slot
from gateway_sdk.bulk._pace import MOST_IN_A_ROW, Pace
from gateway_sdk.bulk._statistics import Alarm, BaseRate, Latency, Stage

_FALSE_ALARM: Final = 1e-4
"""A drop costs about a hundred attempts (CUSUM: the mean run length is at least 1 / this)."""

_RESOLUTION: Final = 1 / 32
"""The smallest difference to detect: the result is within 5 % of the limit, trials included."""

_COST: Final = 1 / 400
"""The share of refusals for trials; half a percent is left for retries that are refused again."""

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

_MEMORY: Final = 2000
"""Attempts that measure the noise: a share of 3 % is then known to within 0.4 %."""

_ALARM: Final = -math.log(_FALSE_ALARM)


class Controller(FixedLimit):
    """Finds and keeps the number of calls at once that is accepted."""

    def __init__(self, maximum: int, start: int) -> None:
        super().__init__(maximum)
        self._good = 1  # was accepted
        self._bad: int | None = None  # was too high
        self._step = 1
        self._slots: set[Slot] = set()
        self._sleeping: set[Slot] = set()
        self._refused: set[Slot] = set()  # those that sleep after a refusal
        self._duration = 0.0
        self._base = BaseRate(_MEMORY)
        self._pace = Pace()
        self._latencies: dict[int, Latency] = {}
        self._crowded: tuple[Stage, int | None] | None = None
        self._patience = 0.0
        self._alone = Alarm()  # of attempts that began with no other on its way
        self._last_end = 0.0  # of an attempt
        self._is_suspected = False  # whether the last block was crowded
        self._block = 0, 0  # attempts and refusals, until they are added to the base
        self._act = self._start  # how the next attempt is judged: one of four phases
        self._stage = Stage(min(start, maximum), 0.0)

    @property
    def size(self) -> int:
        return self._stage.size

    def has_room(self, now: float, waiting: int) -> bool:
        if len(self._refused) >= max(2, self.size):
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

    def waits(self, slot: Slot, now: float, seconds: float) -> None:
        """Free the place of an item that waits for its retry."""
        if slot.was_refused:
            self._pace.waits(now, seconds)
            self._refused.add(slot)
        else:  # a cut teaches nothing, and stops no other item
            self._pace.begin(now)
        slot.began = now + seconds
        slot.was_asleep = True
        self._sleeping.add(slot)

    def ended(self, slot: Slot) -> None:
        for slots in (self._slots, self._sleeping, self._refused):
            slots.discard(slot)

    def attempt_ended(self, slot: Slot, now: float, *, refused: bool | None, is_429: bool) -> None:
        """Learn from an attempt that has ended; None is neither a refusal nor a success."""
        self._sleeping.discard(slot)
        self._refused.discard(slot)
        slot.was_refused = refused is True
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
        if refused:
            was_fine = self._act == self._start or self._stage.fine >= 2 * self.size
            row = min(MOST_IN_A_ROW, max(2, self.size))
            self._pace.refused(slot.began, now, is_429=is_429, was_fine=was_fine, row=row)
        else:
            self._succeeded(slot, now)
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
        self._pace.taken(slot.began, now)

    def _counts(self, slot: Slot) -> bool:
        """Tell whether an attempt counts for the current number of calls."""
        if slot.was_asleep:
            # The session chose the time of this retry, so there may be one call too many.
            on_wire = len(self._slots) - len(self._sleeping)
            return slot.began >= self._stage.since and on_wire <= self.size
        return slot.stage is self._stage

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
            self._keep(stage.refused, stage.ended)
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
            self._keep(stage.refused, stage.ended, replace=True)
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
            self._keep(stage.refused, stage.ended)
            self._good, self._patience = stage.size, 0.0
            self._look_for_more(now)

    def _hold(self, now: float, *, refused: bool) -> None:
        """Keep the number that is known to be good."""
        stage = self._stage
        if self._is_unusual(refused=refused):
            self._drop(stage.alarm.share, now)
            return
        attempts, refusals = self._block
        self._block = attempts + 1, refusals + refused
        if attempts >= 8 / self._excess:
            is_crowded = self._is_crowded()
            if is_crowded and self._is_suspected:
                self._thin_out(now)
                return
            if not is_crowded:
                self._keep(refusals, attempts)
            # The next block is judged alone: it may have begun crowded, and this one may not.
            self._is_suspected, self._block, stage.latency = is_crowded, (0, 0), Latency()
        is_time = stage.ended >= max(self._patience, stage.size)
        if is_time and stage.is_used and stage.size < self._maximum:
            self._go_to(self._good + max(self._step, self._unit), self._try, now)

    def _drop(self, share: float, now: float) -> None:
        """Lower the number by the share of refusals, by at least an eighth and at most a half."""
        self._bad = self.size
        self._good = max(1, min(self.size - 1, int(self.size * (1 - min(0.5, max(0.125, share))))))
        self._step = 1
        self._crowded = None
        self._go_to(self._good, self._learn, now)

    def _fail(self, now: float) -> None:
        stage = self._stage
        self._bad, self._step = stage.size, 1
        self._patience = max(2.0, stage.refused - self._base.rate * stage.ended) / _COST
        if self._bad - self._good > self._unit:
            self._look_for_more(now)
        else:
            self._go_to(self._good, self._hold, now)

    def _look_for_more(self, now: float) -> None:
        """Try a number halfway to the one that was too high, or a higher one if that is reached."""
        if self._bad is not None and self._good < self._bad <= self._good + self._unit:
            self._step = 1
            self._go_to(self._good, self._hold, now)
        elif self._bad is not None and self._bad > self._good:
            self._go_to((self._good + self._bad) // 2, self._try, now)
        elif self._good >= self._maximum:
            self._bad = None
            self._go_to(self._good, self._hold, now)
        else:
            self._bad = None
            self._step *= 2
            self._go_to(self._good + max(self._step, self._unit), self._try, now)

    def _keep(self, refused: int, attempts: int, *, replace: bool = False) -> None:
        """Keep the statistics of a good number of calls."""
        self._base.add(refused, attempts, replace=replace)
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
        # A failed trial does not change the evidence of the blocks before it.
        if act != self._try and not (act == self._hold and self._act == self._try):
            self._block, self._is_suspected = (0, 0), False
        self._act = act
        self._stage = Stage(max(1, min(size, self._maximum)), now)
