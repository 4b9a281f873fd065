"""Errors of a session at the command line: message, advice and exit status."""

import os
import re
from typing import Final

from gateway_sdk import errors
from gateway_sdk.cli import failure
from gateway_sdk.cli.failure import CommandError
from gateway_sdk.cli.output.values import printable
from gateway_sdk.errors import GatewayError
from gateway_sdk.operations import CREATE_CUSTOMER, REVISE_CUSTOMER
from gateway_sdk.outcome import Outcome, Repeatability

STATUSES: Final = {
    Outcome.NOT_SENT: failure.UNCHANGED,
    Outcome.REFUSED: failure.REFUSED,
    Outcome.UNKNOWN: failure.UNKNOWN,
    Outcome.APPLIED: failure.APPLIED,
}

MISUSES: Final = (
    errors.ConfigurationError,
    errors.InvalidArgumentError,
    errors.ReceiverUnavailableError,
)

ADVICE: Final[dict[type[GatewayError], str]] = {
    errors.ConfigurationError: "`gateway status` shows which settings are in force.",
    errors.InvalidArgumentError: "--help shows what the command takes.",
    errors.ConnectionFailedError: "Is it running, and is GATEWAY_BASE_URL right?"
    " `gateway sandbox` starts one here.",
    errors.TokenRejectedError: "Are GATEWAY_AUTH_URL and GATEWAY_CLIENT_ID those of this gateway?",
    errors.UnauthorizedError: "Is GATEWAY_ACCESS_TOKEN right, and still valid?",
    errors.ForbiddenError: "The access token does not allow this: use another one.",
    errors.NotFoundError: "Check the spelling, GATEWAY_BASE_URL and GATEWAY_TENANT_ID.",
    errors.ConflictError: "What is there already does not allow this: look at it first.",
    errors.InvalidRequestError: "The gateway did not understand it: change what you give.",
    errors.LoginRequiredError: "Get a token with `gateway login`.",
    errors.AuthorizationDeniedError: "Log in again, or ask who runs the authorization server.",
    errors.LoginTimeoutError: "Log in again, with a longer --timeout if you need one.",
    errors.MalformedResponseError: "Ask who runs the authorization server.",
    errors.ReceiverUnavailableError: "Port 0 in --redirect-uri takes a free port.",
    errors.StateMismatchError: "Log in again: this was the answer to another login.",
    errors.LoginError: "Log in again.",
    errors.TokenStoreError: "Is GATEWAY_TOKEN_STORE right, and can it be used from here?",
    errors.AuthError: "Is GATEWAY_ACCESS_TOKEN set?",
    errors.RateLimitedError: "Wait, or ask for less at once.",
    errors.RedirectError: "Is GATEWAY_BASE_URL right? Redirects are not followed.",
    errors.UnexpectedReplyError: "Is GATEWAY_BASE_URL the address of a gateway?",
    GatewayError: "Running it again does no harm; --debug shows where it happened.",
}
"""The advice for each kind of error; the first one that fits is used."""

UNSAFE: Final = "Check before you repeat it: it may have been done already."
IDEMPOTENT: Final = "It may have been done already; running it again does no harm."
DONE: Final = "It was done, so do not repeat it: only the reply could not be used."

MOST: Final = 200
"""Characters of a quotation at most."""

PERSONAL: Final = frozenset({CREATE_CUSTOMER.name, REVISE_CUSTOMER.name})
"""Operations with personal data, which the gateway's message may repeat."""

_LIKE_A_TOKEN: Final = re.compile(r"(?i)\bbearer\s+\S+|[\w~+/=.-]{32,}")
"""What follows the word "bearer", or is longer than any word."""


def explain(error: GatewayError) -> CommandError:
    """Make a line that says what went wrong, with the gateway's words, and a line of advice."""
    step = warning_of(error.outcome, error.repeatability) if error.operation else None
    step = step or next(step for kind, step in ADVICE.items() if isinstance(error, kind))
    return CommandError(f"{error}{quote(error)}\n{step}", status_of(error))


def status_of(error: GatewayError) -> int:
    """Return the exit status, which says what happened to a call."""
    if isinstance(error, MISUSES):
        return failure.MISUSED
    if error.operation is None or isinstance(error, errors.LoginError):
        return failure.FAILED
    if error.repeatability is Repeatability.READ and error.outcome is not Outcome.REFUSED:
        return failure.UNCHANGED
    return STATUSES[error.outcome]


def warning_of(outcome: Outcome, repeatability: Repeatability | None) -> str | None:
    """Say what matters before a call is repeated; None if nothing does."""
    if repeatability is Repeatability.READ or outcome in (Outcome.NOT_SENT, Outcome.REFUSED):
        return None
    if outcome is Outcome.APPLIED:
        return DONE
    return UNSAFE if repeatability is Repeatability.ONCE else IDEMPOTENT


def quote(error: GatewayError, *, personal: bool = False) -> str:
    """Quote the gateway or the authorization server after a colon; "" if it said nothing.

    What may be personal data is quoted only on demand: terminals end up in logs.
    """
    words = ""
    if isinstance(error, errors.AuthorizationDeniedError):
        words = error.description or ("" if error.code in str(error) else error.code)
    elif isinstance(error, errors.StatusError) and error.payload:
        words = _clean(error.payload.message or "")
    if words and error.operation in PERSONAL and not personal:
        return " (--debug shows its words)"
    return f": “{words}”" if words else ""


def _clean(text: str) -> str:
    """Remove tokens and control characters, and shorten it."""
    for variable in ("GATEWAY_ACCESS_TOKEN", "GATEWAY_TOKEN_HEADER"):
        if secret := os.environ.get(variable):
            text = text.replace(secret, "…")
    text = printable(_LIKE_A_TOKEN.sub("…", text)).strip()
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"
