"""Statistics of attempts, and what they prove."""

import math
from dataclasses import dataclass, field
from typing import Final, Self

NOISE: Final = 1 / 20
"""The share of refusals that is accepted before the usual share is known."""

FLOOD: Final = 1 / 5
"""The share of refusals that is surely too high: four times the noise."""

_ALARM: Final = -math.log(1e-4)
"""Evidence for a drop, which costs about a hundred attempts (CUSUM: a false one is rarer)."""

_MEMORY: Final = 2000
"""Attempts that measure the noise: a share of 3 % is then known to within 0.4 %."""

_FEW: Final = 2
"""The smallest number of replies that can be compared."""

_SIGNIFICANT: Final = 2.33
"""Standard errors: by chance, a difference of means exceeds them once in a hundred times."""


class Latency:
    """The mean of the logarithms of seconds, which a few slow replies change little."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = self._squares = 0.0

    def add(self, seconds: float) -> None:
        logarithm = math.log(max(seconds, 1e-6))
        self.count += 1
        self._sum += logarithm
        self._squares += logarithm * logarithm

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

    def add(self, *, refused: bool, usual: float = NOISE, more: float = FLOOD) -> bool:
        """Tell whether there is enough of it."""
        if not (refused or self.evidence):
            return False  # as nearly always: a success would take evidence away
        self.evidence += math.log(more / usual) if refused else math.log((1 - more) / (1 - usual))
        self._attempts += 1
        self._refused += refused
        if self.evidence <= 0:
            self.evidence, self._attempts, self._refused = 0.0, 0, 0
        return self.evidence >= _ALARM

    @property
    def share(self) -> float:
        return self._refused / self._attempts


@dataclass(eq=False, slots=True)
class Stage:
    """The attempts since the number of calls at once was last changed."""

    size: int
    since: float
    alarm: Alarm
    needs: float  # attempts that tell whether the number is good
    ended: int = 0
    refused: int = 0
    latency: Latency = field(default_factory=Latency)
    is_used: bool = False  # whether so many calls were in flight; else nothing is learned


@dataclass(eq=False, slots=True)
class Slot:
    """The place of an item among the calls at once."""

    began: float  # its attempt; in the future if it waits for a retry
    stage: Stage  # in which the attempt began
    was_asleep: bool = False  # whether the attempt is a retry
    was_refused: bool = False  # the attempt before it
    was_odd: bool = False  # with 429, at a number of calls that was accepted


class BaseRate:
    """The refusals while fewer calls are in flight than the gateway is known to accept."""

    def __init__(self) -> None:
        self._attempts = self._refused = 0.0

    @property
    def rate(self) -> float:
        return (self._refused + 0.5) / (self._attempts + 1)

    def add(self, refused: int, attempts: int, *, replace: bool = False) -> None:
        """Add refusals; if they exceed chance, ignore them, or replace all earlier ones."""
        chance = math.sqrt(self.rate * (1 - self.rate) / attempts)
        if self._attempts and refused / attempts > self.rate + chance:
            if not replace:
                return
            self._attempts = self._refused = 0.0
        # Older ones lose weight.
        fade = min(1.0, _MEMORY / (self._attempts + attempts))
        self._attempts = fade * (self._attempts + attempts)
        self._refused = fade * (self._refused + refused)
