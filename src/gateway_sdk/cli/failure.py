"""What the user reads when a command cannot go on, and the exit status that goes with it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway_sdk.cli.words import quote
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

FAILED: Final = 1
"""What no other status is for, such as a login that nobody finished, or a search without a find."""
MISUSED: Final = 2
"""As for a wrong option: the command line or its surroundings have to change first."""
REFUSED: Final = 3
"""The gateway said no: nothing was changed."""
UNCHANGED: Final = 4
"""Nothing was sent; or what only reads got no usable reply. Running it again does no harm."""
UNKNOWN: Final = 5
"""It may have been done: nobody knows before somebody has looked."""
APPLIED: Final = 6
"""It was done, but its reply could not be used, or not be printed."""
STOPPED: Final = 130
"""By Ctrl-C, as shells say it: 128 and the number of the signal."""
READER_LEFT: Final = 141
"""Whoever read the output has left, as `head` does: 128 and the number of SIGPIPE."""

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
        ConfigurationError: "Set it in the environment, or see `gateway login --help`.",
        InvalidArgumentError: "--help tells what the command takes.",
        ConnectionFailedError: "Is it running, and is GATEWAY_BASE_URL right?"
        " `gateway sandbox` starts one here.",
        TokenRejectedError: "Are GATEWAY_AUTH_URL and GATEWAY_CLIENT_ID those of this gateway?",
        UnauthorizedError: "Is GATEWAY_ACCESS_TOKEN right, and still valid?",
        ForbiddenError: "The access token does not allow this: use another, or ask whoever can.",
        NotFoundError: "Is it spelt right, and are GATEWAY_BASE_URL and GATEWAY_TENANT_ID?",
        ConflictError: "It is in a state that does not allow this: look at it first.",
        InvalidRequestError: "The gateway did not understand it: change what you give.",
        LoginRequiredError: "Get a token with `gateway login`.",
        AuthorizationDeniedError: "Log in again, or ask whoever runs the authorization server.",
        LoginTimeoutError: "Log in again, if need be with a longer --timeout.",
        MalformedResponseError: "Ask whoever runs the authorization server.",
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
"""The next step for each kind of error, the first that fits."""

SAFE: Final = "Running it again does no harm; --debug shows where it happened."
UNSAFE: Final = "Look before you repeat it: it may have been done already."
IDEMPOTENT: Final = "It may have been done already; running it again does no harm."
DONE: Final = "It was done, so do not repeat it; only the reply could not be used."


class CommandError(Exception):
    """A command cannot go on, for a reason that its user can do something about.

    Attributes:
        status: The exit status of the process.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def explain(error: GatewayError) -> CommandError:
    """Say what a session's error means at the command line, with the next step in a second line."""
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
