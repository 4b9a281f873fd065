"""What the calls of one item did, as their sessions tell it."""

import random
from typing import Final

from gateway_sdk.bulk._limit import Ticket
from gateway_sdk.errors import DeadlineExceededError, GatewayError, RateLimitedError
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.outcome import Attempt, Outcome, Repeatability, outcome_of

_FIRST_WAIT: Final = 0.5
"""Seconds, where the gateway does not say how long to wait: those of `RetryPolicy.backoff`. It
doubles with each refusal of the item."""

_LONGEST_WAIT: Final = 30.0
"""Seconds that the doubling stops at: an item is then tried twice a minute."""

_SPREAD: Final = 1.0
"""Seconds at the most that are added at random, so that items do not come back together."""


class ItemWatch(Observer):
    """Hears every call that is made in the context of one item's task.

    Args:
        ticket: Told of each attempt and each wait.

    Attributes:
        attempts: Requests made so far.
        sends_once: Whether something is sent that must not be made twice.
    """

    def __init__(self, ticket: Ticket) -> None:
        self.attempts = 0
        self.sends_once = False
        self._ticket = ticket
        self._calls: dict[CallInfo, tuple[Attempt, ...]] = {}

    def call_started(self, call: CallInfo) -> None:
        """Note the call."""
        self._calls[call] = ()

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        """Count the attempt."""
        self.attempts += 1
        self._calls[call] += (attempt,)
        self._ticket.attempt_finished(attempt)

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        """Pass on that the item waits."""
        del call, attempt
        self._ticket.retry_scheduled(seconds)

    @property
    def was_told(self) -> bool:
        """Whether any session made a call for the item."""
        return bool(self._calls)

    @property
    def outcome(self) -> Outcome:
        """What the item did: the most that a call of it did that changes anything.

        NOT_SENT where nothing was heard; of an item that only reads, its last call counts.
        """
        outcomes = [
            (call.operation.repeatability, outcome_of(attempts, call.operation.repeatability))
            for call, attempts in self._calls.items()
        ]
        changing = [outcome for kind, outcome in outcomes if kind is not Repeatability.READ]
        return max(changing or [outcome for _, outcome in outcomes[-1:]], default=Outcome.NOT_SENT)

    @property
    def may_repeat(self) -> bool:
        """Whether doing the item again can do no harm, as far as sessions have told."""
        return not self.sends_once or self.outcome in (Outcome.NOT_SENT, Outcome.REFUSED)

    def may_begin_again(self, error: RateLimitedError) -> bool:
        """Whether the item's function may be called again after this 429.

        Only if every call of it that changes anything is proven to have done nothing, and if the
        error is of a call that was heard here, or of none: what was done elsewhere is not known.
        """
        changing = any(
            call.operation.repeatability is not Repeatability.READ
            and outcome_of(attempts, call.operation.repeatability) > Outcome.REFUSED
            for call, attempts in self._calls.items()
        )
        heard = error.operation is None or error.operation in {
            call.operation.name for call in self._calls
        }
        return heard and not changing

    def interrupted(self, message: str, *, by_deadline: bool) -> GatewayError:
        """Make the error of an item that was ended, with what is known of it."""
        error = DeadlineExceededError(message) if by_deadline else GatewayError(message)
        if not self._calls:  # what it did, if not through a session, nobody knows
            error.outcome = Outcome.UNKNOWN
            return error
        call, attempts = list(self._calls.items())[-1]
        error.of_call(call.operation.name, call.operation.repeatability, attempts)
        error.outcome = self.outcome
        if self.sends_once:
            error.repeatability = Repeatability.ONCE
        return error


class Waits:
    """The waits of one item after refusals with 429.

    Args:
        watch: What the item's calls did.
        patience: Seconds that the item may wait in all; None for no bound.
    """

    def __init__(self, watch: ItemWatch, patience: float | None) -> None:
        self._watch = watch
        self._patience = patience
        self._backoff = _FIRST_WAIT
        self._waited = 0.0

    def after(self, error: RateLimitedError) -> float | None:
        """Return the seconds to wait before the item is tried again; None if it must not be.

        Never less than the gateway asked for.
        """
        if not self._watch.may_begin_again(error):
            return None
        asked = self._backoff if error.retry_after is None else error.retry_after
        self._backoff = min(2 * self._backoff, _LONGEST_WAIT)
        # Not for secrets: it only spreads the items out.
        wait = asked + random.random() * min(max(asked, _FIRST_WAIT), _SPREAD)  # noqa: S311
        self._waited += wait
        if self._patience is not None and self._waited > self._patience:
            return None
        return wait
