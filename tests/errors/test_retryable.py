"""`retryable`: which errors of the whole tree a queue should try again, and after which outcome."""

import inspect
import pickle
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_sdk import errors
from gateway_sdk.errors import GatewayError, StatusError, UnexpectedReplyError
from gateway_sdk.outcome import Attempt, Outcome, Repeatability

NOT_SENT, REFUSED, UNKNOWN, APPLIED = Outcome

MAY_PASS = "may pass"
STAYS = "stays"
BY_STATUS = "by its status"
TABLE: dict[type[GatewayError], str] = {
    errors.GatewayError: STAYS,
    errors.ConfigurationError: STAYS,
    errors.InvalidArgumentError: STAYS,
    errors.SessionStateError: STAYS,
    errors.JournalError: STAYS,
    errors.PlanStoreError: STAYS,
    errors.PoisonChunkError: STAYS,
    errors.ConnectionFailedError: MAY_PASS,
    errors.UploadFailedError: STAYS,
    errors.ReplyLostError: MAY_PASS,
    errors.ReplyTimeoutError: MAY_PASS,
    errors.DeadlineExceededError: MAY_PASS,
    errors.StatusError: BY_STATUS,
    errors.InvalidRequestError: STAYS,
    errors.UnauthorizedError: STAYS,
    errors.ForbiddenError: STAYS,
    errors.NotFoundError: STAYS,
    errors.ConflictError: STAYS,
    errors.RateLimitedError: MAY_PASS,
    errors.ServerError: BY_STATUS,
    errors.RedirectError: STAYS,
    errors.UnexpectedReplyError: STAYS,
    errors.AuthError: STAYS,
    errors.LoginRequiredError: STAYS,
    errors.LoginError: STAYS,
    errors.AuthorizationDeniedError: STAYS,
    errors.StateMismatchError: STAYS,
    errors.MalformedResponseError: STAYS,
    errors.LoginTimeoutError: STAYS,
    errors.ReceiverUnavailableError: STAYS,
    errors.TokenStoreError: STAYS,
    errors.TokenRejectedError: STAYS,
}
"""Whether the same call may succeed later, unchanged, after an error of each class."""

STATUSES: dict[type[StatusError], tuple[int, ...]] = {
    errors.InvalidRequestError: (400, 422),
    errors.UnauthorizedError: (401,),
    errors.TokenRejectedError: (401,),
    errors.ForbiddenError: (403,),
    errors.NotFoundError: (404,),
    errors.ConflictError: (409,),
    errors.RateLimitedError: (429,),
    errors.RedirectError: tuple(range(300, 400)),
    errors.ServerError: tuple(range(500, 600)),
    errors.StatusError: tuple(set(range(400, 500)) - {400, 401, 403, 404, 409, 422, 429}),
}
"""The statuses that each class stands for."""

PASSING = {408, 429, *range(500, 600)} - {501, 505}

KINDS = [
    kind
    for kind in vars(errors).values()
    if inspect.isclass(kind) and issubclass(kind, GatewayError) and kind.__name__[0] != "_"
]


def _examples(kind: type[GatewayError]) -> list[GatewayError]:
    """Return an error of a class; of those with a status, one for each of its statuses."""
    if kind is UnexpectedReplyError:
        return [kind("message", status=200)]
    if issubclass(kind, StatusError):
        return [kind("message", status=status) for status in STATUSES[kind]]
    return [kind("message")]


def _ended(error: GatewayError, outcome: Outcome, repeatability: Repeatability) -> GatewayError:
    return error.of_call("an_operation", repeatability, (Attempt(outcome, None, None, 0.0),))


@pytest.mark.parametrize("kind", KINDS)
def test_every_class_of_error_is_decided(kind: type[GatewayError]) -> None:
    """A class that is not in the table, for example a new one, fails here."""
    for error in _examples(kind):
        decided = TABLE[kind]
        if decided == BY_STATUS:
            decided = MAY_PASS if error.status in PASSING else STAYS  # type: ignore[attr-defined]

        assert error.transient is (decided == MAY_PASS)
        assert _ended(error, NOT_SENT, Repeatability.ONCE).retryable is error.transient


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("repeatability", Repeatability)
@pytest.mark.parametrize("outcome", Outcome)
def test_an_unsafe_repetition_is_never_retryable(
    kind: type[GatewayError], repeatability: Repeatability, outcome: Outcome
) -> None:
    """A temporary cause is not enough: repeating must do no harm either."""
    harmless = {
        Repeatability.READ: True,
        Repeatability.IDEMPOTENT: outcome is not APPLIED,  # it was done, so nothing is left to do
        Repeatability.ONCE: outcome in (NOT_SENT, REFUSED),
    }
    for error in _examples(kind):
        _ended(error, outcome, repeatability)

        assert error.retryable is (error.transient and harmless[repeatability])
        assert error.safe_to_repeat or not error.retryable


@given(st.sampled_from(KINDS), st.sampled_from(Outcome), st.sampled_from(Repeatability))
def test_it_survives_pickling(
    kind: type[GatewayError], outcome: Outcome, repeatability: Repeatability
) -> None:
    """A queue whose workers send errors as pickles can still read it."""
    for error in _examples(kind):
        for transient in (error.transient, not error.transient):
            error.transient = transient
            _ended(error, outcome, repeatability)

            twin = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

            assert (twin.transient, twin.retryable) == (transient, error.retryable)


def test_a_misspelt_field_is_safe_to_repeat_and_yet_not_retryable() -> None:
    """With `safe_to_repeat` alone a queue would repeat it without end."""
    error = errors.InvalidRequestError("message", status=HTTPStatus.UNPROCESSABLE_ENTITY)
    error.of_call("create_customer", Repeatability.ONCE, (Attempt(REFUSED, 422, None, 0.0),))

    assert error.safe_to_repeat
    assert not error.retryable
