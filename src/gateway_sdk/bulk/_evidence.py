"""What was seen of attempts, and what it says."""

import math
from typing import Final, Self

_SIGNIFICANT: Final = 2.33
"""Standard errors that a difference of means exceeds by chance once in a hundred times."""

_FEW: Final = 2
"""Replies from which on there is something to compare."""


class Latency:
    """Mean of the logarithms of seconds, which a few slow replies do not move."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0
        self._squares = 0.0

    def add(self, seconds: float) -> None:
        """Take one reply into account."""
        logarithm = math.log(max(seconds, 1e-6))
        self.count += 1
        self._sum += logarithm
        self._squares += logarithm * logarithm

    def merge(self, other: Self) -> None:
        """Take the replies of another mean into account."""
        self.count += other.count
        self._sum += other._sum
        self._squares += other._squares

    @property
    def mean(self) -> float:
        """The mean; there must be a reply."""
        return self._sum / self.count

    @property
    def variance_of_mean(self) -> float:
        """How uncertain the mean is; there must be a reply."""
        spread = max(0.0, self._squares / self.count - self.mean**2)
        return spread / max(1, self.count - 1)

    def is_slower_than(self, fewer: Self, growth: float) -> bool:
        """Tell whether latency grew by more than the square root of the number of calls.

        Twice the calls then bring less than 1.4 times the throughput. *growth* is the logarithm
        of how many times more calls there were than with *fewer*.
        """
        if min(self.count, fewer.count) < _FEW:
            return False
        error = math.sqrt(self.variance_of_mean + fewer.variance_of_mean)
        return self.mean - fewer.mean > max(growth / 2, _SIGNIFICANT * error)


class Alarm:
    """Adds up the evidence that more is refused than usual (CUSUM).

    Attributes:
        evidence: A log-likelihood ratio, since it was last below 0.
    """

    def __init__(self) -> None:
        self.evidence = 0.0
        self._refused = self._attempts = 0

    def add(self, *, refused: bool, usual: float, more: float) -> None:
        """Take an attempt into account, by the share that is usual and the one that is feared."""
        self.evidence += math.log(more / usual) if refused else math.log((1 - more) / (1 - usual))
        self._attempts += 1
        self._refused += refused
        if self.evidence <= 0:
            self.evidence, self._attempts, self._refused = 0.0, 0, 0

    @property
    def share(self) -> float:
        """The share of refusals since then, which is the likeliest one."""
        return self._refused / self._attempts


class Stage:
    """The attempts since the number of calls at once was last changed.

    Attributes:
        size: The number.
        since: When it was changed, in seconds of the run's clock.
        begun: Attempts that began; those that have not ended are taken for successes where
            refusals come faster than replies, which else look like more than they are.
        fine: Those that were taken.
        refused: Those that were not.
        latency: Of those that were taken.
        is_used: Whether so many were under way; if not, nothing is learned of the number.
    """

    def __init__(self, size: int, since: float) -> None:
        self.size = size
        self.since = since
        self.begun = self.fine = self.refused = 0
        self.latency = Latency()
        self.is_used = False

    @property
    def ended(self) -> int:
        """Attempts that ended."""
        return self.fine + self.refused

    @property
    def share(self) -> float:
        """The share of refusals; at least one attempt must have ended."""
        return self.refused / self.ended


def log_likelihood(refused: float, attempts: float, rate: float) -> float:
    """Return the logarithm of how likely so many refusals are at a rate between 0 and 1."""
    fine = attempts - refused
    return (refused * math.log(rate) if refused else 0.0) + (
        fine * math.log(1 - rate) if fine > 0 else 0.0
    )


class Base:
    """The refusals that have nothing to do with the number of calls at once.

    Learned where fewer calls are under way than the gateway is known to take.

    Args:
        memory: Attempts that count; older ones fade.
    """

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._attempts = 0.0
        self._refused = 0.0

    @property
    def _counts(self) -> tuple[float, float]:
        """Refusals and attempts, with half a refusal for what was not seen yet (Jeffreys)."""
        return self._refused + 0.5, self._attempts + 1

    @property
    def rate(self) -> float:
        """The share of refusals."""
        refused, attempts = self._counts
        return refused / attempts

    def add(self, refused: int, attempts: int, *, replace: bool = False) -> None:
        """Add what was seen; if it is more than chance, leave it out or let it replace all."""
        chance = math.sqrt(self.rate * (1 - self.rate) / attempts)
        if self._attempts and refused / attempts > self.rate + chance:
            if not replace:
                return
            self._attempts = self._refused = 0.0
        fade = min(1.0, self._memory / (self._attempts + attempts))
        self._attempts = fade * (self._attempts + attempts)
        self._refused = fade * (self._refused + refused)

    def evidence_of_more(self, refused: int, attempts: int) -> float:
        """Return how much likelier two rates are than one, in logarithms; 0 if it is not higher."""
        base, of = self._counts
        if refused / attempts <= base / of:
            return 0.0
        both = (refused + base) / (attempts + of)
        return (
            log_likelihood(refused, attempts, min(refused / attempts, 1 - 1e-9))
            + log_likelihood(base, of, base / of)
            - log_likelihood(refused, attempts, both)
            - log_likelihood(base, of, both)
        )

    def evidence_of_same(self, refused: int, attempts: int, excess: float) -> float:
        """Return how much likelier one rate is than one that is higher by *excess*."""
        base, of = self._counts
        both = attempts + of
        same = (refused + base) / both
        lower = max((refused + base - excess * attempts) / both, 0.5 / both)
        return (
            log_likelihood(refused, attempts, same)
            + log_likelihood(base, of, same)
            - log_likelihood(refused, attempts, min(0.99, lower + excess))
            - log_likelihood(base, of, lower)
        )
