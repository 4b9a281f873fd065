"""Retries: which attempts are repeated, after which wait, and how many. Uses tenacity."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import httpx
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_exponential

from gateway_sdk.errors import (
    ConfigurationError,
    ConnectionFailedError,
    GatewayError,
    ReplyLostError,
    StatusError,
    UnauthorizedError,
)
from gateway_sdk.outcome import Advice, Attempt, Outcome, Repeatability
from gateway_sdk.retry_policy import RetryBudget, RetryPolicy

T = TypeVar("T")

ALL: Final = frozenset(Repeatability)
HARMLESS: Final = frozenset({Repeatability.READ, Repeatability.IDEMPOTENT})
READS: Final = frozenset({Repeatability.READ})
NOTHING: Final[frozenset[Repeatability]] = frozenset()

_TOO_MANY: Final = 429
_CONNECT_WAITS: Final = 0.1, 1.0
"""Seconds between attempts to connect, at least and at most: a gateway that comes back is seen
soon, and one that is away is not asked without a pause."""
TOO_LONG: Final = "the gateway asks for a longer wait than the retries take"
_TOO_LATE: Final = "the deadline leaves no time for another attempt"
_NO_BUDGET: Final = "no retry is left in the retry_budget of the session or of the bulk run"


def repeatable_after(error: GatewayError, policy: RetryPolicy) -> frozenset[Repeatability]:
    match error:
        case ConnectionFailedError():
            return ALL if error.advice is Advice.REPEAT else NOTHING
        case ReplyLostError(status=None):
            return HARMLESS if error.advice is Advice.REPEAT else NOTHING
        case ReplyLostError():  # the status was 2xx: a write was done, or a web page broke off
            return READS
        case UnauthorizedError():  # waiting does not help: it needs another token
            return NOTHING
        case StatusError(status=status) if status in policy.statuses:
            return ALL if status == _TOO_MANY else HARMLESS
        case _:
            return NOTHING


class Patience:
    """Decides whether another attempt follows a failed one, and after which wait."""

    def __init__(
        self,
        policy: RetryPolicy,
        made: Sequence[Attempt],  # the failed attempts, also those to come
        ends: float,  # the deadline, by the loop's clock
        spend: Callable[[], bool],  # takes a retry out of the budget; asked last
    ) -> None:
        self._policy, self._made, self._ends, self._spend = policy, made, ends, spend
        self._exponential = wait_exponential(multiplier=policy.backoff, max=policy.backoff_max)
        self._away = 0.0  # seconds without a connection, up to now and with the next wait
        self._free = 0  # attempts in such seconds

    def wait(self, state: RetryCallState) -> float:
        # The random part spreads the clients, which does not have to be secure.
        backoff = self._exponential(state) * (1 - self._policy.jitter * random.random())  # noqa: S311
        if self._is_unsent:
            return min(max(backoff, _CONNECT_WAITS[0]), _CONNECT_WAITS[1])
        # In addition, so that callers who were asked to wait do not come back together.
        return retry_after(_error_of(state)) + backoff

    def ends_after(self, state: RetryCallState) -> bool:
        error, wait = _error_of(state), state.upcoming_sleep
        is_free = self._costs_nothing(error, wait)
        if not is_free and self._is_used_up(state.attempt_number):
            return True
        obstacle = self._obstacle(error, wait, is_free=is_free)
        error.no_retry = obstacle or error.no_retry
        return bool(obstacle)

    def _costs_nothing(self, error: GatewayError, wait: float) -> bool:
        """Count the seconds without a connection; in `connect_wait` of them attempts are free."""
        is_away = self._is_unsent and not isinstance(error.__cause__, httpx.PoolTimeout)
        self._away = self._away + _took(self._made[-1]) + wait if is_away else 0.0
        is_free = 0.0 < self._away <= self._policy.connect_wait
        self._free += is_free
        return is_free

    def _is_used_up(self, attempts: int) -> bool:
        is_away_too_long = self._away > 0.0 and self._free > 0
        return is_away_too_long or attempts - self._free >= self._policy.attempts

    def _obstacle(self, error: GatewayError, wait: float, *, is_free: bool) -> str:
        # The next attempt may be as fast as the fastest so far.
        fastest = min(map(_took, self._made), default=0.0)
        if not is_free and retry_after(error) > self._policy.retry_after_max:
            return TOO_LONG
        if asyncio.get_running_loop().time() + wait + fastest >= self._ends:
            return _TOO_LATE
        return "" if is_free or self._spend() else _NO_BUDGET

    @property
    def _is_unsent(self) -> bool:
        return bool(self._made) and self._made[-1].outcome is Outcome.NOT_SENT


async def try_again(
    failures: list[GatewayError],  # that of the first attempt
    attempt: Callable[[], Awaitable[T]],
    patience: Patience,
    again: Callable[[BaseException], bool],
    sleep: Callable[[float], Awaitable[None]],
) -> T:
    """Make more attempts until one succeeds or no more may follow; then raise its error."""

    # The first attempt is made before this function, which costs 14 µs: most calls do not need
    # it. No reference to an error is kept: its traceback refers to this frame (a cycle).
    async def once() -> T:
        if failures:  # tenacity must see the first failure, so it is raised again here
            raise failures.pop()
        return await attempt()

    retrying = AsyncRetrying(
        retry=retry_if_exception(again),
        wait=patience.wait,
        stop=patience.ends_after,
        sleep=sleep,
        reraise=True,
    )
    return await retrying(once)


def _took(attempt: Attempt) -> float:
    """Return the seconds of an attempt without those in the queues of this session."""
    # Not below 0: they are measured by the loop's clock, which may be late on uvloop.
    return max(0.0, attempt.elapsed - attempt.slot_wait - attempt.rate_wait)


def _error_of(state: RetryCallState) -> GatewayError:
    outcome: Any = state.outcome
    error: GatewayError = outcome.exception()  # `again` accepts no others
    return error


def retry_after(error: BaseException) -> float:
    """Return the seconds that the gateway asked to wait; 0 if it did not ask."""
    return (isinstance(error, StatusError) and error.retry_after) or 0.0


class Bucket:
    def __init__(self, budget: RetryBudget, clock: Callable[[], float] = time.monotonic) -> None:
        self.calls = 0  # the calls whose share is not added yet
        self._budget = budget
        self._clock = clock
        self._left = float(budget.reserve)
        self._filled = clock()

    def take(self) -> bool:
        """Take a retry out; False if none is left."""
        now, budget = self._clock(), self._budget
        more = budget.share * self.calls + budget.per_second * (now - self._filled)
        self._left = min(self._left + more, float(budget.reserve))
        self._filled, self.calls = now, 0
        if self._left < 1:
            return False
        self._left -= 1
        return True


def bucket_of(name: str, budget: object) -> Bucket | None:
    if budget is None:
        return None
    if not isinstance(budget, RetryBudget):
        raise ConfigurationError("must be a RetryBudget, or None for no limit", setting=name)
    return Bucket(budget)
