"""How much extra load the retries of a whole session may be."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from gateway_sdk._config import check_count, check_share
from gateway_sdk._repr import safe_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """What an outage may cost: retries come out of a bucket, which calls and time fill again.

    Over t seconds with n calls a session sends at the most `reserve + share * n + per_second * t`
    requests more than it has calls; renewing an access token is no retry. Without a budget, three
    attempts per call triple the load on a gateway that is already failing.

    Attributes:
        reserve: Retries that are there at the beginning, and at the most.
        share: Retries that each call adds; 0.1 is a tenth more load.
        per_second: Retries that each second adds, so that a session with few calls has some too.

    Raises:
        ConfigurationError: a number is out of its range.
    """

    reserve: int = 20
    share: float = 0.1
    per_second: float = 1.0

    def __post_init__(self) -> None:
        check_count("reserve", self.reserve)
        for name in ("share", "per_second"):
            check_share(name, getattr(self, name))


class Bucket:
    """The budget of one session, as it stands."""

    def __init__(self, budget: RetryBudget, clock: Callable[[], float] = time.monotonic) -> None:
        self._budget = budget
        self._clock = clock
        self._left = float(budget.reserve)
        self._filled = clock()

    def add_call(self) -> None:
        """Add what a call adds."""
        self._add(self._budget.share)

    def take(self) -> bool:
        """Take a retry out; False if there is none."""
        now = self._clock()
        self._add(self._budget.per_second * (now - self._filled))
        self._filled = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def _add(self, retries: float) -> None:
        self._left = min(self._left + retries, float(self._budget.reserve))

    @safe_repr
    def __repr__(self) -> str:
        return f"<Bucket {self._left:.1f} of {self._budget.reserve} retries left>"
