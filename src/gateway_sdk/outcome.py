"""The result of a call: its outcome, its attempts, and the reply if it succeeded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import Final, Generic, TypeVar


class Outcome(IntEnum):
    """What the gateway did with a request, as far as the client can prove it.

    A larger value means that more may have happened, so `max()` over the attempts of a call is
    the outcome of the call.
    """

    NOT_SENT = 0
    """No byte of the request was sent: nothing happened."""
    REFUSED = 1
    """The gateway answered that it refused the request: nothing happened."""
    UNKNOWN = 2
    """Bytes were sent and no proof came back: all, a part or nothing may have happened."""
    APPLIED = 3
    """The gateway answered that it did the request, even if its reply could not be used."""


OUTCOME_TEXT: Final = {
    Outcome.NOT_SENT: "nothing was sent",
    Outcome.REFUSED: "the gateway refused it: nothing was changed",
    Outcome.UNKNOWN: "it is unknown whether the gateway did it",
    Outcome.APPLIED: "the gateway did it",
}


PASSING: Final = (408, 429, 500, 502, 503, 504)
"""The statuses of a failure that may pass: a `RetryPolicy` tries again after them."""


class Advice(StrEnum):
    """What to do next after an error: all that a worker has to ask."""

    REPEAT = "repeat"
    """Make the same call later: it does no harm, and may succeed. Give the task back."""
    LOG_IN = "log_in"
    """There is no usable token. Give the task back, and take no more until somebody has logged in:
    every call would fail."""
    CHECK = "check"
    """The call was done, or may have been done and must not be done twice: look at the gateway."""
    FIX = "fix"
    """The same call would fail again: set the task aside, and correct what the message names."""


class Repeatability(Enum):
    """The effect of sending an operation a second time."""

    READ = "read"
    """Nothing: it only reads."""
    IDEMPOTENT = "idempotent"
    """No further effect (RFC 9110, 9.2.2: PUT and DELETE)."""
    ONCE = "once"
    """The same effect again: a second customer, a second document."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to send a request, after its end.

    Attributes:
        outcome: The outcome of this attempt alone.
        status: The HTTP status; None if no complete head of a reply came.
        error: The class name of the error; None if the attempt succeeded.
        elapsed: Seconds, from the wait for a connection to the end of the reply.
        number: The number of the attempt in its call, from 1; one with a renewed access token
            counts too.
        slot_wait: Seconds of `elapsed` in which the request waited for one of `max_connections`.
        rate_wait: Seconds of `elapsed` in which the request waited for its turn under the
            `rate_limit`.
    """

    outcome: Outcome
    status: int | None
    error: str | None
    elapsed: float
    number: int = 1
    slot_wait: float = 0.0
    rate_wait: float = 0.0


def outcome_of(attempts: tuple[Attempt, ...], repeatability: Repeatability) -> Outcome:
    """Return the outcome of a whole call: the largest one of its attempts.

    A READ changes nothing, so only its last attempt counts. NOT_SENT without attempts.
    """
    if not attempts:
        return Outcome.NOT_SENT
    if len(attempts) == 1 or repeatability is Repeatability.READ:
        return attempts[-1].outcome
    return max(attempt.outcome for attempt in attempts)


T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply(Generic[T_co]):
    """A successful reply, and how it was received.

    Attributes:
        value: The decoded body, which the coroutine methods return.
        status: The HTTP status, 2xx.
        headers: The headers; case does not matter in names.
        body: The decompressed bytes of the body.
        attempts: Every attempt, oldest first; the last one succeeded.
        elapsed: Seconds of the whole call: token, queue, attempts and the waits between them.
    """

    value: T_co = field(repr=False)
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    attempts: tuple[Attempt, ...]
    elapsed: float
