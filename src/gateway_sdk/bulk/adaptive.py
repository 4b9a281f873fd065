"""Find out how many calls the gateway takes at once, and stay there."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway_sdk.bulk.limit import Limit
from gateway_sdk.bulk.load import Tally, was_refused
from gateway_sdk.errors import InvalidArgumentError, StatusError
from gateway_sdk.outcome import Attempt

_PATIENCE: Final = 300
"""Calls at the known limit before the next one is tried, which costs one to three refusals."""

_MOST_PATIENCE: Final = 2400
"""It doubles with each refusal up to here: a limit that is raised is found in a while."""

_DROPPED: Final = 0.03
"""The share of refusals, in one round of calls, that says that the limit has become lower."""

_ROUND: Final = 20
"""Calls at the least from which a share is taken."""

_CHANCE: Final = 2
"""So many refusals in a round may be chance."""

_SOME_NOISE: Final = 0.003
"""The share of them from which on a single one says nothing."""

_MOST_NOISE: Final = 0.01
"""The share of them that is borne; more are taken for the limit."""

_MEMORY: Final = 500
"""Calls over which refusals that have nothing to do with the number of calls are averaged."""


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
    """Grows until the gateway refuses, then narrows down, stays, and tries one more now and then.

    The limit lies between `_good`, which was held without refusals, and `_bad`, which was refused.
    """

    def __init__(self, options: Adaptive) -> None:
        self._maximum = options.maximum
        self._size = min(options.start, options.maximum)
        self._good = 1
        self._bad: int | None = None
        self._step = 1
        self._patience = _PATIENCE
        self._changed = -1.0
        self._is_used = False  # if fewer are under way than may be, nothing was tried
        self._round = Tally()
        self._noise = 0.0
        self._duration = 0.0
        self._tickets: set[_Ticket] = set()
        self._sleeping: set[_Ticket] = set()

    @property
    def size(self) -> int:
        """How many calls may be under way now."""
        return self._size

    def has_room(self, waiting: int) -> bool:
        """Tell whether one more may begin, which those that wait for a retry will not meet."""
        if len(self._sleeping) >= max(2, self._size):
            return False  # nearly all are refused: let them be heard first
        under_way = self._under_way()
        self._is_used = under_way >= self._size
        return under_way + waiting < self._size

    def _under_way(self) -> int:
        """Count the calls on the wire, and those that will be there again before a new one ends."""
        soon = self._clock() + 2 * self._duration
        away = sum(ticket.began > soon for ticket in self._sleeping)
        return len(self._tickets) - away

    @staticmethod
    def _clock() -> float:
        return asyncio.get_running_loop().time()

    def begin(self, stir: Callable[[], None]) -> "_Ticket":
        """Count a call that begins."""
        ticket = _Ticket(self, stir, self._clock())
        self._tickets.add(ticket)
        return ticket

    def sleeps(self, ticket: "_Ticket", seconds: float) -> None:
        """Free the place of a call that waits for its retry."""
        ticket.began = self._clock() + seconds
        self._sleeping.add(ticket)

    def ended(self, ticket: "_Ticket") -> None:
        """Free the place of an item."""
        self._tickets.discard(ticket)
        self._sleeping.discard(ticket)

    def heard(self, ticket: "_Ticket", *, refused: bool | None) -> None:
        """Learn from an attempt that has ended; None is neither a refusal nor a success."""
        woke, now = ticket in self._sleeping, self._clock()
        self._sleeping.discard(ticket)
        if refused is False:
            share = 0.1 if self._duration else 1.0
            self._duration += share * (now - ticket.began - self._duration)
        if refused is None or ticket.began < self._changed:
            return  # what began before the last change says nothing of what is now
        if refused and woke:
            return  # it came when the session chose, perhaps as one too many
        self._round.count(refused=refused)
        if self._bad is None:
            self._grow(refused=refused)
        elif self._size > self._good:
            self._try(refused=refused)
        else:
            self._hold(refused=refused)

    def _grow(self, *, refused: bool) -> None:
        """Begin: one more for each success, which doubles the number in each round trip."""
        if refused:
            self._bad = self._size
            self._settle(max(1, self._size // 2))
        elif self._is_used:
            self._size = min(self._size + 1, self._maximum)

    def _try(self, *, refused: bool) -> None:
        """Hold more than is known to be good for a while, and see."""
        if self._round.refused > self._bearable:
            self._bad = self._size
            if self._bad == self._good + 1:
                self._patience = min(2 * self._patience, _MOST_PATIENCE)
            self._step = 1
            self._settle(self._good)
        elif not refused and self._round.fine >= 2 * self._size:
            self._good = self._size
            self._advance()

    @property
    def _bearable(self) -> int:
        """How many refusals of a trial may be noise; one call too many brings two or more."""
        return max(1, int(_MOST_NOISE * self._size)) if self._noise > _SOME_NOISE else 0

    def _hold(self, *, refused: bool) -> None:
        """Stay, unless the limit has become lower, or until it is time to try again."""
        self._noise += (refused - self._noise) / _MEMORY
        tally = self._round
        if tally.watched >= max(_ROUND, self._size) or tally.watched_refused > self._size / 2:
            seen, share = tally.watched_refused, tally.watched_refused / tally.watched
            tally.forget()
            if share > _DROPPED and seen > _CHANCE:
                self._bad = self._size
                self._patience = _PATIENCE
                self._settle(max(1, int(self._size * (1 - min(share, 0.5)))))
                return
        known = self._bad is not None and self._bad <= self._good + 1
        need = self._patience if known else 2 * self._size
        if tally.fine >= need and self._is_used and self._good < self._maximum:
            self._advance()

    def _advance(self) -> None:
        """Go on: halfway to what was refused, or beyond it if that is no more."""
        if self._bad is not None and self._bad > self._good + 1:
            self._go_to((self._good + self._bad) // 2)
            return
        if self._bad is not None and self._good >= self._bad:
            self._patience = _PATIENCE
            self._step *= 2
        self._go_to(min(self._good + self._step, self._maximum))

    def _settle(self, size: int) -> None:
        self._good = size
        self._go_to(size)

    def _go_to(self, size: int) -> None:
        self._size = size
        self._changed = self._clock()
        self._round = Tally()


class _Ticket:
    """One item under way.

    Attributes:
        began: When its attempt began, or will begin if it waits for a retry.
    """

    def __init__(self, tuner: Tuner, stir: Callable[[], None], began: float) -> None:
        self._tuner = tuner
        self._stir = stir
        self._was_told = False
        self.began = began

    def attempt_finished(self, attempt: Attempt) -> None:
        """Learn from a request."""
        self._was_told = True
        self._tuner.heard(self, refused=was_refused(attempt.status, attempt.error))

    def retry_scheduled(self, seconds: float) -> None:
        """Give the place to another item meanwhile."""
        self._tuner.sleeps(self, seconds)
        self._stir()

    def ended(self, error: BaseException | None) -> None:
        """Learn from the whole call what no session has told."""
        if not self._was_told:
            status = error.status if isinstance(error, StatusError) else None
            if error is None or status is not None:
                self._tuner.heard(self, refused=was_refused(status or 200, None))
            else:
                self._tuner.heard(self, refused=was_refused(None, type(error).__name__))
        self._tuner.ended(self)
