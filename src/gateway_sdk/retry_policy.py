"""How often a call is tried again, and how much load retries may add in all."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence, Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from gateway_sdk._checks import check_amount, check_count, check_switch, check_wait
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.outcome import PASSING

default_sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
"""What sessions wait with between attempts that have no `sleep=` of their own; tests replace it."""

_FAILURES: Final = range(400, 600)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a call is tried, and how long it waits between attempts.

    The policy cannot make an operation repeatable: see `Repeatability`.

    Attributes:
        attempts: The largest number of requests per call, with the first one. A renewed access
            token after a 401 adds one; attempts under `connect_wait` are not counted.
        connect_wait: Seconds for which a call tries again while no connection can be made, as
            during a restart of the gateway. Nothing was sent then, so these attempts cost nothing
            of `attempts` and of the retry budget.
        backoff: Seconds, doubled with each attempt. The wait is a random part of it (see `jitter`),
            so that many clients do not come back at the same time.
        backoff_max: Seconds at which the doubling stops.
        jitter: How much of the wait is random, from 0 for nothing to 1 for all ("full jitter").
        retry_after_max: Seconds. If the gateway asks for a longer wait, the error is raised at
            once, with its `retry_after`.
        repeat_idempotent: Whether a PUT or DELETE may be sent again. Give False if other writers
            change the same resources: a late repetition could undo their change.
        statuses: The statuses after which a retry may succeed. A 408 or a 503 does not prove that
            nothing was done, so after all but 429 only operations that read or are idempotent
            are sent again.

    Raises:
        ConfigurationError: a number is out of its range.
    """

    attempts: int = 3
    connect_wait: float = 5.0
    backoff: float = 0.5
    backoff_max: float = 8.0
    jitter: float = 1.0
    retry_after_max: float = 60.0
    repeat_idempotent: bool = True
    statuses: Sequence[int] | AbstractSet[int] = PASSING  # pydantic knows no Collection

    def __post_init__(self) -> None:
        check_count("attempts", self.attempts)
        if check_amount("jitter", self.jitter) > 1:
            raise ConfigurationError("must be from 0 to 1", setting="jitter")
        statuses: object = self.statuses
        if not isinstance(statuses, Collection) or not all(
            isinstance(status, int) and status in _FAILURES for status in statuses
        ):
            problem = "must be a collection of numbers from 400 to 599"
            raise ConfigurationError(problem, setting="statuses")
        # A copy: the caller could change the original after this check.
        object.__setattr__(self, "statuses", tuple(statuses))
        for name in ("connect_wait", "backoff", "backoff_max", "retry_after_max"):
            check_wait(name, getattr(self, name))
        check_switch("repeat_idempotent", self.repeat_idempotent)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryBudget:
    """Limits the retries of a session; calls and time add retries to the budget.

    Over t seconds with n calls a session makes no more than
    `reserve + share * n + per_second * t` retries. An attempt with a renewed access token does
    not count. Without a budget, three attempts per call triple the load on a failing gateway.

    Attributes:
        reserve: Retries in the budget at the beginning; it never holds more.
        share: Retries that each call adds; 0.1 allows 10 % more load.
        per_second: Retries that each second adds, for sessions with few calls.

    Raises:
        ConfigurationError: a number is out of its range.
    """

    reserve: int = 100
    share: float = 0.1
    per_second: float = 1.0

    def __post_init__(self) -> None:
        check_count("reserve", self.reserve)
        for name in ("share", "per_second"):
            check_amount(name, getattr(self, name))
