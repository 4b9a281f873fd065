import pytest

from gateway_sdk.cli.session import explain
from gateway_sdk.errors import (
    AuthError,
    AuthorizationDeniedError,
    ConfigurationError,
    ConflictError,
    ConnectionFailedError,
    DeadlineExceededError,
    ForbiddenError,
    GatewayError,
    InvalidArgumentError,
    InvalidRequestError,
    LoginError,
    LoginRequiredError,
    LoginTimeoutError,
    MalformedResponseError,
    NotFoundError,
    RateLimitedError,
    ReceiverUnavailableError,
    RedirectError,
    StateMismatchError,
    StatusError,
    TokenRejectedError,
    TokenStoreError,
    UnauthorizedError,
    UnexpectedReplyError,
)
from gateway_sdk.outcome import Attempt, Outcome, Repeatability


@pytest.mark.parametrize(
    ("error", "next_step", "status"),
    [
        (ConfigurationError("GATEWAY_BASE_URL is not set"), "`gateway status`", 2),
        (InvalidArgumentError("symbols is empty"), "--help", 2),
        (ConnectionFailedError("connection refused"), "gateway sandbox", 1),
        (AuthError("no token"), "GATEWAY_ACCESS_TOKEN", 1),
        (UnauthorizedError("401", status=401), "GATEWAY_ACCESS_TOKEN", 1),
        (TokenRejectedError("401 again", status=401), "GATEWAY_AUTH_URL", 1),
        (LoginRequiredError("no token"), "`gateway login`", 1),
        (AuthorizationDeniedError("refused"), "authorization server", 1),
        (LoginTimeoutError("nobody came", refused=3), "--timeout", 1),
        (MalformedResponseError("no token in it"), "authorization server", 1),
        (ReceiverUnavailableError("the port is taken"), "--redirect-uri", 2),
        (StateMismatchError("another login"), "the answer to another login", 1),
        (LoginError("nothing was pasted"), "Log in again", 1),
        (TokenStoreError("Redis is gone"), "GATEWAY_TOKEN_STORE", 1),
        (DeadlineExceededError("too slow"), "does no harm", 1),
    ],
)
def test_error_comes_with_the_next_step(error: GatewayError, next_step: str, status: int) -> None:
    """The first line is what went wrong, the second what to do about it."""
    failure = explain(error)

    first, second = str(failure).splitlines()
    assert first == str(error)
    assert next_step in second
    assert failure.status == status


READ, IDEMPOTENT, ONCE = Repeatability.READ, Repeatability.IDEMPOTENT, Repeatability.ONCE


@pytest.mark.parametrize(
    ("repeatability", "outcome", "status", "next_step"),
    [
        (READ, Outcome.NOT_SENT, 4, "does no harm"),
        (READ, Outcome.REFUSED, 3, "does no harm"),
        (READ, Outcome.UNKNOWN, 4, "does no harm"),
        (READ, Outcome.APPLIED, 4, "does no harm"),
        (IDEMPOTENT, Outcome.NOT_SENT, 4, "does no harm; --debug"),
        (IDEMPOTENT, Outcome.REFUSED, 3, "does no harm; --debug"),
        (IDEMPOTENT, Outcome.UNKNOWN, 5, "It may have been done already; running it again"),
        (IDEMPOTENT, Outcome.APPLIED, 6, "do not repeat it"),
        (ONCE, Outcome.NOT_SENT, 4, "does no harm; --debug"),
        (ONCE, Outcome.REFUSED, 3, "does no harm; --debug"),
        (ONCE, Outcome.UNKNOWN, 5, "Check before you repeat it"),
        (ONCE, Outcome.APPLIED, 6, "do not repeat it"),
    ],
)
def test_status_after_a_call_says_what_became_of_it(
    repeatability: Repeatability, outcome: Outcome, status: int, next_step: str
) -> None:
    """A script reads from the status alone whether something may have happened."""
    attempt = Attempt(outcome=outcome, status=None, error="Error", elapsed=1.0)
    error = DeadlineExceededError("too slow").of_call("call", repeatability, (attempt,))

    failure = explain(error)

    assert failure.status == status
    assert next_step in str(failure).splitlines()[1]


@pytest.mark.parametrize(
    ("kind", "next_step"),
    [
        (ForbiddenError, "does not allow this"),
        (NotFoundError, "Check the spelling"),
        (ConflictError, "look at it first"),
        (InvalidRequestError, "change what you give"),
        (RateLimitedError, "Wait"),
        (RedirectError, "GATEWAY_BASE_URL"),
        (UnexpectedReplyError, "GATEWAY_BASE_URL"),
        (UnauthorizedError, "GATEWAY_ACCESS_TOKEN"),
    ],
)
def test_replies_come_with_the_next_step(
    kind: type[StatusError] | type[UnexpectedReplyError], next_step: str
) -> None:
    """Each kind of refusal has an advice of its own."""
    refused = Attempt(outcome=Outcome.REFUSED, status=400, error=kind.__name__, elapsed=1.0)
    error = kind("no", status=400).of_call("call", ONCE, (refused,))

    assert next_step in str(explain(error)).splitlines()[1]


@pytest.mark.parametrize(
    ("code", "description", "first"),
    [
        ("access_denied", "", "refused (access_denied)"),
        ("access_denied", "not today", "refused (access_denied): “not today”"),
        ("odd_code", "", "refused (access_denied): “odd_code”"),
        ("odd_code", "not today", "refused (access_denied): “not today”"),
        ("", "", "refused (access_denied)"),
    ],
)
def test_authorization_server_is_quoted(code: str, description: str, first: str) -> None:
    """Its description is shown if it has one, else a code that the text does not name."""
    error = AuthorizationDeniedError("refused (access_denied)", code=code, description=description)

    assert str(explain(error)).splitlines()[0] == first
