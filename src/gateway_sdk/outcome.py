"""What became of a call: the words in which every reply and every error reports it."""

from dataclasses import dataclass
from enum import Enum, IntEnum


class Outcome(IntEnum):
    """What the gateway did with a request, as far as the client can prove it.

    Ordered by how much may have happened, so that `max()` over the attempts of a call is the
    outcome of the call.
    """

    NOT_SENT = 0
    """No byte of the request left: nothing happened."""
    REFUSED = 1
    """The gateway answered that it did not do it: nothing happened."""
    UNKNOWN = 2
    """Bytes left and no proof came back: it may have happened, wholly, in part or not at all."""
    APPLIED = 3
    """The gateway answered that it did it, even if its reply could not be used."""


class Repeatability(Enum):
    """What sending an operation a second time would do."""

    READ = "read"
    """Nothing: it only reads."""
    IDEMPOTENT = "idempotent"
    """Nothing more than the first one did (RFC 9110, 9.2.2: PUT and DELETE)."""
    ONCE = "once"
    """The thing again: a second customer, a second document."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to send a request, as it ended.

    Attributes:
        outcome: What this try alone came to.
        status: The HTTP status, or None if no complete head of a reply came.
        error: The class name of what went wrong, or None for the attempt that succeeded.
        elapsed: Seconds, from queueing for a connection to the end of the reply.
    """

    outcome: Outcome
    status: int | None
    error: str | None
    elapsed: float


def outcome_of(attempts: tuple[Attempt, ...], repeatability: Repeatability) -> Outcome:
    """Sum up what a whole call did: the most that any of its attempts may have done.

    A READ changes nothing, so only its last attempt counts. No attempt yet: NOT_SENT.
    """
    if not attempts:
        return Outcome.NOT_SENT
    if repeatability is Repeatability.READ:
        return attempts[-1].outcome
    return max(attempt.outcome for attempt in attempts)
