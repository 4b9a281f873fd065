"""What the user reads when a command cannot go on, and the exit status that goes with it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gateway_sdk.errors import (
    AuthError,
    ConfigurationError,
    ConnectionFailedError,
    GatewayError,
    InvalidArgumentError,
    RateLimitedError,
    UnauthorizedError,
)

FAILED: Final = 1
MISUSED: Final = 2
"""As for a wrong option: the command line or its surroundings have to change first."""

ADVICE: Final[Mapping[type[GatewayError], str]] = MappingProxyType(
    {
        ConfigurationError: "Set it in the environment, or see `gateway --help`.",
        InvalidArgumentError: "See `gateway --help`.",
        ConnectionFailedError: "Is it running, and is GATEWAY_BASE_URL right?"
        " `gateway sandbox` starts one here.",
        UnauthorizedError: "Is GATEWAY_ACCESS_TOKEN right, and still valid?",
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
    misused = isinstance(error, ConfigurationError | InvalidArgumentError)
    return CommandError(f"{error}\n{_next_step(error)}", MISUSED if misused else FAILED)


def _next_step(error: GatewayError) -> str:
    if not error.safe_to_repeat:
        return UNSAFE
    return next((step for kind, step in ADVICE.items() if isinstance(error, kind)), SAFE)
