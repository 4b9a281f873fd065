import pytest

from gateway_sdk.cli.failure import explain
from gateway_sdk.errors import (
    AuthError,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    GatewayError,
    InvalidArgumentError,
)
from gateway_sdk.outcome import Attempt, Outcome, Repeatability


@pytest.mark.parametrize(
    ("error", "next_step", "status"),
    [
        (ConfigurationError("GATEWAY_BASE_URL is not set"), "Set it in the environment", 2),
        (InvalidArgumentError("symbols is empty"), "gateway --help", 2),
        (ConnectionFailedError("connection refused"), "gateway sandbox", 1),
        (AuthError("no token"), "GATEWAY_ACCESS_TOKEN", 1),
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


def test_write_of_unknown_outcome_is_not_to_be_repeated_blindly() -> None:
    """An error that does not say whether it happened asks its reader to look first."""
    lost = Attempt(outcome=Outcome.UNKNOWN, status=None, error="ReplyLostError", elapsed=1.0)
    error = DeadlineExceededError("too slow").of_call("create", Repeatability.ONCE, (lost,))

    assert str(explain(error)).endswith("it may have been done already.")
