"""What the user reads when a command cannot go on, and the exit status that goes with it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway_sdk.errors import (
    AuthError,
    AuthorizationDeniedError,
    ConfigurationError,
    ConnectionFailedError,
    GatewayError,
    InvalidArgumentError,
    LoginError,
    LoginRequiredError,
    LoginTimeoutError,
    MalformedResponseError,
    RateLimitedError,
    ReceiverUnavailableError,
    StateMismatchError,
    TokenRejectedError,
    TokenStoreError,
    UnauthorizedError,
)

FAILED: Final = 1
MISUSED: Final = 2
"""As for a wrong option: the command line or its surroundings have to change first."""

MISUSES: Final = (ConfigurationError, InvalidArgumentError, ReceiverUnavailableError)

ADVICE: Final[Mapping[type[GatewayError], str]] = MappingProxyType(
    {
        ConfigurationError: "Set it in the environment, or see `gateway login --help`.",
        InvalidArgumentError: "See `gateway --help`.",
        ConnectionFailedError: "Is it running, and is GATEWAY_BASE_URL right?"
        " `gateway sandbox` starts one here.",
        TokenRejectedError: "Are GATEWAY_AUTH_URL and GATEWAY_CLIENT_ID those of this gateway?",
        UnauthorizedError: "Is GATEWAY_ACCESS_TOKEN right, and still valid?",
        LoginRequiredError: "Get a token with `gateway login`.",
        AuthorizationDeniedError: "Log in again, or ask whoever runs the authorization server.",
        LoginTimeoutError: "Log in again, if need be with a longer --timeout.",
        MalformedResponseError: "Ask whoever runs the authorization server.",
        ReceiverUnavailableError: "Port 0 in --redirect-uri takes any that is free.",
        StateMismatchError: "Log in again: each login has an answer of its own.",
        LoginError: "Log in again.",
        TokenStoreError: "Is GATEWAY_TOKEN_STORE right, and can it be used from here?",
        AuthError: "Is GATEWAY_ACCESS_TOKEN set?",
        RateLimitedError: "Wait, or ask for less at once with a lower --concurrency.",
    }
)
"""The next step for each kind of error, the first that fits."""

SAFE: Final = "Running it again does no harm; --debug shows where it happened."
UNSAFE: Final = "Look before you repeat it: it may have been done already."


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
    misused = isinstance(error, MISUSES)
    message = f"{error}{_words(error)}\n{_next_step(error)}"
    return CommandError(message, MISUSED if misused else FAILED)


def _words(error: GatewayError) -> str:
    """Quote the authorization server: its description, or its code if the text lacks that."""
    if not isinstance(error, AuthorizationDeniedError):
        return ""
    words = error.description or ("" if error.code in str(error) else error.code)
    return f": “{words}”" if words else ""


def _next_step(error: GatewayError) -> str:
    if not error.safe_to_repeat:
        return UNSAFE
    return next((step for kind, step in ADVICE.items() if isinstance(error, kind)), SAFE)
