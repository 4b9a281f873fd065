"""What is sent again, after how long, and how much of it a session may cost. Names tenacity."""

import random
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final, TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_exponential

from gateway_sdk._config import check_count, check_share, check_switch, check_wait
from gateway_sdk._repr import safe_repr
from gateway_sdk.errors import (
    ConfigurationError,
    ConnectionFailedError,
    GatewayError,
    ReplyLostError,
    StatusError,
    UnauthorizedError,
)
from gateway_sdk.outcome import Repeatability

T = TypeVar("T")

ALL: Final = frozenset(Repeatability)
HARMLESS: Final = frozenset({Repeatability.READ, Repeatability.IDEMPOTENT})
READS: Final = frozenset({Repeatability.READ})
NOTHING: Final[frozenset[Repeatability]] = frozenset()

_TOO_MANY: Final = 429
_FAILURES: Final = range(400, 600)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how patiently a call is tried.

    What may be sent again at all is not a matter of policy: see `repeatable_after`.

    Attributes:
        attempts: Requests per call at the most, the first one included. A new access token
            after a 401 grants one more.
        backoff: Seconds. The wait before the second attempt is a random part of it, so that many
            callers do not come back at once; it doubles each time.
        backoff_max: Seconds that the doubling stops at.
        jitter: How much of the wait is random, from 0 for nothing to 1 for all ("full jitter").
        retry_after_max: Seconds. A gateway that asks for a longer wait gets none: the error is
            raised at once, with its `retry_after`.
        repeat_idempotent: False for those who share things with other writers, where a late
            repetition of a PUT or DELETE could undo what another one did in between.
        statuses: What may pass by itself. 408 is misused by intermediaries, and a 503 does not
            prove that nothing was done, so that after all but 429 only what reads or is
            idempotent is sent again.

    Raises:
        ConfigurationError: a number is out of its range.
    """

    attempts: int = 3
    backoff: float = 0.5
    backoff_max: float = 8.0
    jitter: float = 1.0
    retry_after_max: float = 60.0
    repeat_idempotent: bool = True
    statuses: Collection[int] = (408, 429, 500, 502, 503, 504)

    def __post_init__(self) -> None:
        check_count("attempts", self.attempts)
        if check_share("jitter", self.jitter) > 1:
            raise ConfigurationError("jitter must be from 0 to 1")
        # Of its own, so that nobody changes it behind the back of the check.
        object.__setattr__(self, "statuses", _checked_statuses(self.statuses))
        for name in ("backoff", "backoff_max", "retry_after_max"):
            check_wait(name, getattr(self, name))
        check_switch("repeat_idempotent", self.repeat_idempotent)


def _checked_statuses(statuses: object) -> tuple[int, ...]:
    if not isinstance(statuses, Collection) or not all(
        isinstance(status, int) and status in _FAILURES for status in statuses
    ):
        raise ConfigurationError("statuses must be a collection of numbers from 400 to 599")
    return tuple(statuses)


def repeatable_after(error: GatewayError, policy: RetryPolicy) -> frozenset[Repeatability]:
    """Say which operations may be sent again after an attempt that ended like this."""
    match error:
        case ConnectionFailedError():
            return ALL if error.transient else NOTHING
        case ReplyLostError(status=None):
            return HARMLESS if error.transient else NOTHING
        case ReplyLostError():  # 2xx: a write is done, and only its reply is lost
            return READS
        case UnauthorizedError():  # a matter of the token, not of time
            return NOTHING
        case StatusError(status=status) if status in policy.statuses:
            return ALL if status == _TOO_MANY else HARMLESS
        case _:
            return NOTHING


def may_repeat(error: BaseException, repeatability: Repeatability, policy: RetryPolicy) -> bool:
    """Tell whether an operation may be sent again after an attempt that ended like this."""
    if not isinstance(error, GatewayError):
        return False
    if repeatability is Repeatability.IDEMPOTENT and not policy.repeat_idempotent:
        repeatability = Repeatability.ONCE
    return repeatability in repeatable_after(error, policy)


async def try_again(
    failure: GatewayError,
    attempt: Callable[[], Awaitable[T]],
    *,
    policy: RetryPolicy,
    again: Callable[[BaseException], bool],
    fits: Callable[[float], bool],
    spend: Callable[[], bool],
    scheduled: Callable[[float], None],
    sleep: Callable[[float], Awaitable[None]],
) -> T:
    """Make more attempts until one succeeds or must be the last; its error goes through.

    Most calls end with their first attempt and never come here, which would cost them 14 µs.

    Args:
        failure: What the first attempt raised, after which another may be made.
        attempt: Makes one attempt.
        policy: How often and how patiently.
        again: Whether an attempt may be made after this error.
        fits: Whether so many seconds of waiting leave time for an attempt.
        spend: Takes a retry out of the budget; asked last, when all else is in favour.
        scheduled: Told of each retry, and in how many seconds it comes.
        sleep: Waits so many seconds.
    """

    def wait(state: RetryCallState) -> float:
        # In addition, so that callers who were asked to wait do not come back together.
        return (_retry_after(state) or 0.0) + _backoff(policy, state)

    def stop(state: RetryCallState) -> bool:
        return (
            state.attempt_number >= policy.attempts
            or (_retry_after(state) or 0.0) > policy.retry_after_max
            or not fits(state.upcoming_sleep)
            or not spend()
        )

    first = [failure]
    del failure  # whose traceback leads to this frame: they would hold each other

    async def once() -> T:
        if first:  # tenacity has to see the failure that it acts upon
            raise first.pop()
        return await attempt()

    retrying = AsyncRetrying(
        retry=retry_if_exception(again),
        wait=wait,
        stop=stop,
        before_sleep=lambda state: scheduled(state.upcoming_sleep),
        sleep=sleep,
        reraise=True,
    )
    return await retrying(once)


def _backoff(policy: RetryPolicy, state: RetryCallState) -> float:
    """Return the seconds to wait, of which `jitter` says how much is random."""
    longest = wait_exponential(multiplier=policy.backoff, max=policy.backoff_max)(state)
    # Not for secrets: it only spreads callers out.
    return longest * (1 - policy.jitter * random.random())  # noqa: S311


def _retry_after(state: RetryCallState) -> float | None:
    """Return the seconds that the gateway asked to wait, if its answer did."""
    error = state.outcome.exception() if state.outcome else None
    return error.retry_after if isinstance(error, StatusError) else None


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
