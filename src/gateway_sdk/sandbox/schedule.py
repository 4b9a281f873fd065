"""When which fault happens."""

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Self

from gateway_sdk.sandbox.faults import Fault, Sleep
from gateway_sdk.sandbox.operations import OPERATION_NAMES


@dataclass
class _Rule:
    """A fault, the operation it is for (None: every one), and which of its calls it may hit.

    *first* counts from 1, *last* is included; None is without end.
    """

    fault: Fault
    operation: str | None
    first: int
    last: int | None
    rate: float
    seen: int = 0

    def counts(self, operation: str) -> bool:
        """Count a call if it is one of ours, and tell whether it may be hit."""
        if self.operation not in (None, operation):
            return False
        self.seen += 1
        return self.first <= self.seen and (self.last is None or self.seen <= self.last)


class Faults:
    """Which faults happen at which calls: every rule that hits one, in the order they were added.

    Faults().on("cancel_order", Fault.drop_after_read(), at=1).anywhere(Fault.latency(1), rate=0.1)

    Args:
        seed: Repeats the same chances; used by *rate* only.
        sleep: Waits some seconds, in the faults that take time.
    """

    def __init__(self, *, seed: int = 0, sleep: Sleep = asyncio.sleep) -> None:
        self.sleep = sleep
        self._random = Random(seed)  # noqa: S311 - it has to be repeatable, not secret
        self._rules: list[_Rule] = []

    def on(
        self,
        operation: str,
        fault: Fault,
        *,
        at: int | None = None,
        times: int | None = None,
        rate: float = 1.0,
    ) -> Self:
        """Add a fault to one operation, such as "cancel_order".

        Without more it hits every call. With *times* it hits the next so many; with *at* it starts
        at that call, counted from 1 from now on, and hits it alone unless *times* says otherwise.
        Each of these calls is hit with the chance *rate*, 0 to 1.

        Raises:
            ValueError: For an unknown operation, or a number out of its range.
        """
        if operation not in OPERATION_NAMES:
            known = ", ".join(OPERATION_NAMES)
            raise ValueError(f"unknown operation {operation!r}; there are {known}")
        return self._add(fault, operation, at, times, rate)

    def anywhere(
        self, fault: Fault, *, at: int | None = None, times: int | None = None, rate: float = 1.0
    ) -> Self:
        """Add a fault to all operations, counting their calls together; otherwise like `on`."""
        return self._add(fault, None, at, times, rate)

    def due(self, operation: str) -> list[Fault]:
        """Count a call of *operation* and list the faults that hit it, perhaps none."""
        hit = [rule for rule in self._rules if rule.counts(operation)]
        return [rule.fault for rule in hit if self._random.random() < rule.rate]

    def _add(
        self, fault: Fault, operation: str | None, at: int | None, times: int | None, rate: float
    ) -> Self:
        if at is not None and at < 1:
            raise ValueError(f"at counts from 1: {at}")
        if times is not None and times < 1:
            raise ValueError(f"times must be 1 or more: {times}")
        if not 0 <= rate <= 1:
            raise ValueError(f"rate must be from 0 to 1: {rate}")
        first = at or 1
        last = None if at is None and times is None else first + (times or 1) - 1
        self._rules.append(_Rule(fault, operation, first, last, rate))
        return self
