"""Statistics of attempts, and what they prove."""

import math
from typing import Final, Self

_SIGNIFICANT: Final = 2.33
"""Standard errors: by chance, a difference of means exceeds them once in a hundred times."""

_FEW: Final = 2
"""The smallest number of replies that can be compared."""


class Latency:
    """The mean of the logarithms of seconds, which a few slow replies change little."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0
        self._squares = 0.0

    def add(self, seconds: float) -> None:
        logarithm = math.log(max(seconds, 1e-6))
        self.count += 1
        self._sum += logarithm
        self._squares += logarithm * logarithm

    def merge(self, other: Self) -> None:
        self.count += other.count
        self._sum += other._sum
        self._squares += other._squares

    @property
    def mean(self) -> float:
        return self._sum / self.count

    @property
    def variance_of_mean(self) -> float:
        spread = max(0.0, self._squares / self.count - self.mean**2)
        return spread / max(1, self.count - 1)

    def is_slower_than(self, fewer: Self, growth: float) -> bool:
        """Tell whether latency grew, beyond chance, by more than *growth*, a logarithm."""
        if min(self.count, fewer.count) < _FEW:
            return False
        error = math.sqrt(self.variance_of_mean + fewer.variance_of_mean)
        return self.mean - fewer.mean > max(growth, _SIGNIFICANT * error)


class Alarm:
    """Sums up the evidence that the gateway refuses more than usual (CUSUM)."""

    def __init__(self) -> None:
        self.evidence = 0.0  # a log-likelihood ratio, since it was last below 0
        self._refused = self._attempts = 0

    def add(self, *, refused: bool, usual: float, more: float) -> None:
        self.evidence += math.log(more / usual) if refused else math.log((1 - more) / (1 - usual))
        self._attempts += 1
        self._refused += refused
        if self.evidence <= 0:
            self.evidence, self._attempts, self._refused = 0.0, 0, 0

    @property
    def share(self) -> float:
        return self._refused / self._attempts


class Stage:
    """The attempts since the number of calls at once was last changed."""

    def __init__(self, size: int, since: float) -> None:
        self.size = size
        self.since = since
        # Begun attempts that have not ended count as successes where refusals come faster than
        # replies, because the share of refusals looks too high otherwise.
        self.begun = self.fine = self.refused = 0
        self.latency = Latency()
        self.is_used = False  # whether so many calls were in flight; else nothing is learned

    @property
    def ended(self) -> int:
        return self.fine + self.refused

    @property
    def share(self) -> float:
        return self.refused / self.ended


def log_likelihood(refused: float, attempts: float, rate: float) -> float:
    """Return the log-likelihood of this number of refusals, at a rate between 0 and 1."""
    fine = attempts - refused
    return (refused * math.log(rate) if refused else 0.0) + (
        fine * math.log(1 - rate) if fine > 0 else 0.0
    )


class BaseRate:
    """The refusals while fewer calls are in flight than the gateway is known to accept."""

    def __init__(self, memory: int) -> None:
        self._memory = memory  # attempts that count; older ones lose weight
        self._attempts = 0.0
        self._refused = 0.0

    @property
    def _counts(self) -> tuple[float, float]:
        return self._refused + 0.5, self._attempts + 1

    @property
    def rate(self) -> float:
        refused, attempts = self._counts
        return refused / attempts

    def add(self, refused: int, attempts: int, *, replace: bool = False) -> None:
        """Add refusals; if they exceed chance, ignore them, or replace all earlier ones."""
        chance = math.sqrt(self.rate * (1 - self.rate) / attempts)
        if self._attempts and refused / attempts > self.rate + chance:
            if not replace:
                return
            self._attempts = self._refused = 0.0
        fade = min(1.0, self._memory / (self._attempts + attempts))
        self._attempts = fade * (self._attempts + attempts)
        self._refused = fade * (self._refused + refused)

    def evidence_of_more(self, refused: int, attempts: int) -> float:
        """Return the log-likelihood ratio of two rates to one; 0 if the rate is not higher."""
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
        """Return the log-likelihood ratio of one rate to a rate that is higher by *excess*."""
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
