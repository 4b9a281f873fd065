"""What an error of a session means at the command line: the next step, and the exit status."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway_sdk.cli.failure import (
    APPLIED,
    FAILED,
    MISUSED,
    REFUSED,
    UNCHANGED,
    UNKNOWN,
    CommandError,
)
from gateway_sdk.cli.redact import quote
from gateway_sdk.errors import (
    AuthError,
    AuthorizationDeniedError,
    ConfigurationError,
    ConflictError,
    ConnectionFailedError,
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
    TokenRejectedError,
    TokenStoreError,
    UnauthorizedError,
    UnexpectedReplyError,
)
from gateway_sdk.outcome import Outcome, Repeatability

STATUSES: Final[Mapping[Outcome, int]] = MappingProxyType(
    {
        Outcome.NOT_SENT: UNCHANGED,
        Outcome.REFUSED: REFUSED,
        Outcome.UNKNOWN: UNKNOWN,
        Outcome.APPLIED: APPLIED,
    }
)

MISUSES: Final = (ConfigurationError, InvalidArgumentError, ReceiverUnavailableError)

ADVICE: Final[Mapping[type[GatewayError], str]] = MappingProxyType(
    {
        ConfigurationError: "`gateway status` shows which settings are in force.",
        InvalidArgumentError: "--help tells what the command takes.",
        ConnectionFailedError: "Is it running, and is GATEWAY_BASE_URL right?"
        " `gateway sandbox` starts one here.",
        TokenRejectedError: "Are GATEWAY_AUTH_URL and GATEWAY_CLIENT_ID those of this gateway?",
        UnauthorizedError: "Is GATEWAY_ACCESS_TOKEN right, and still valid?",
        ForbiddenError: "The access token does not allow this: use another one.",
        NotFoundError: "Is it spelt right, and are GATEWAY_BASE_URL and GATEWAY_TENANT_ID?",
        ConflictError: "It is in a state that does not allow this: look at it first.",
        InvalidRequestError: "The gateway did not understand it: change what you give.",
        LoginRequiredError: "Get a token with `gateway login`.",
        AuthorizationDeniedError: "Log in again, or ask who runs the authorization server.",
        LoginTimeoutError: "Log in again, if need be with a longer --timeout.",
        MalformedResponseError: "Ask who runs the authorization server.",
        ReceiverUnavailableError: "Port 0 in --redirect-uri takes any that is free.",
        StateMismatchError: "Log in again: each login has an answer of its own.",
        LoginError: "Log in again.",
        TokenStoreError: "Is GATEWAY_TOKEN_STORE right, and can it be used from here?",
        AuthError: "Is GATEWAY_ACCESS_TOKEN set?",
        RateLimitedError: "Wait, or ask for less at once.",
        RedirectError: "Is GATEWAY_BASE_URL right? Nothing is ever sent to where it points.",
        UnexpectedReplyError: "Is GATEWAY_BASE_URL a gateway's address, and not a web page's?",
    }
)
"""The next step for each kind of error; the first that fits is taken."""

SAFE: Final = "Running it again does no harm; --debug shows where it happened."
UNSAFE: Final = "Look before you repeat it: it may have been done already."
IDEMPOTENT: Final = "It may have been done already; running it again does no harm."
DONE: Final = "It was done, so do not repeat it; only the reply could not be used."


def explain(error: GatewayError) -> CommandError:
    """Make a line on what went wrong, with the gateway's words, and a line on the next step."""
    return CommandError(f"{error}{quote(error)}\n{_next_step(error)}", status_of(error))


def status_of(error: GatewayError) -> int:
    """Return the exit status: after a call it says what became of it."""
    if isinstance(error, MISUSES):
        return MISUSED
    if error.operation is None or isinstance(error, LoginError):
        return FAILED
    if error.repeatability is Repeatability.READ and error.outcome is not Outcome.REFUSED:
        return UNCHANGED
    return STATUSES[error.outcome]


def warning_of(outcome: Outcome, repeatability: Repeatability | None) -> str | None:
    """Say what has to be known before a call is made again; None if that is nothing."""
    if repeatability is Repeatability.READ or outcome in (Outcome.NOT_SENT, Outcome.REFUSED):
        return None
    if outcome is Outcome.APPLIED:
        return DONE
    return UNSAFE if repeatability is Repeatability.ONCE else IDEMPOTENT


def _next_step(error: GatewayError) -> str:
    if error.operation and (warning := warning_of(error.outcome, error.repeatability)):
        return warning
    return next((step for kind, step in ADVICE.items() if isinstance(error, kind)), SAFE)
