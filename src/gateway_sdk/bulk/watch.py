"""What the calls of one item did, as their sessions tell it."""

from gateway_sdk.bulk.limit import Ticket
from gateway_sdk.errors import DeadlineExceededError, GatewayError, RateLimitedError
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.outcome import Attempt, Outcome, Repeatability, outcome_of


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

    def cut(self, message: str, *, by_deadline: bool) -> GatewayError:
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
