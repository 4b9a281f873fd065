"""The session of a command with a gateway or a sandbox, and what its errors say."""

import asyncio
import logging
import os
import re
import sys
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, Final, TypeVar

from gateway_sdk import errors
from gateway_sdk.cli.arguments import GIVEN
from gateway_sdk.cli.config import Settings, settings_of
from gateway_sdk.cli.process import CommandError, Status, printable, say
from gateway_sdk.errors import GatewayError
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.operations import CREATE_CUSTOMER, REVISE_CUSTOMER
from gateway_sdk.outcome import Attempt, Outcome, Repeatability
from gateway_sdk.session import GatewaySession

_logger = logging.getLogger("gateway_sdk")

T = TypeVar("T")

LONG: Final = 2.0  # seconds: the reason for a longer wait is shown


class _Witness(Observer):
    """Keeps what happened to the call that Ctrl-C interrupted, and reports long waits."""

    def __init__(self, *, tells_waits: bool) -> None:
        self.warning: str | None = None  # what matters before the call is repeated
        self._tells_waits = tells_waits

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        if self._tells_waits and seconds >= LONG:
            reason = attempt.status or attempt.error
            say(f"{call.operation.name}: trying again in {seconds:.0f} s ({reason})")

    def call_finished(
        self,
        call: CallInfo,
        outcome: Outcome,
        error: BaseException | None,
        elapsed: float,  # noqa: ARG002 - not used
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            self.warning = warning_of(outcome, call.operation.repeatability)


def ask(
    work: Callable[[GatewaySession], Awaitable[T]],
    *,
    needs_tenant: bool = False,
    tells_waits: bool = True,
    parse_float: Callable[[str], Any] = Decimal,
    settings: Settings | None = None,
) -> T:
    witness = _Witness(tells_waits=tells_waits and not GIVEN["verbose"])
    if GIVEN["verbose"]:
        # The SDK's log has no values and no secrets. It ends with the process.
        _logger.addHandler(logging.StreamHandler())
        _logger.setLevel(logging.DEBUG)
    # Commands say in their own words what a bulk run waits for.
    logging.getLogger("gateway_sdk.bulk").setLevel(logging.ERROR)

    async def asking() -> T:
        more: Any = {"parse_float": parse_float, "observers": [witness]}
        async with _session(settings, needs_tenant=needs_tenant, **more) as gateway:
            return await work(gateway)

    try:
        return asyncio.run(asking())
    except KeyboardInterrupt:
        # With what matters before the call is repeated.
        raise KeyboardInterrupt(witness.warning or "") from None


def _session(settings: Settings | None, *, needs_tenant: bool, **more: Any) -> GatewaySession:
    """Make a session; one with a sandbox in this process ignores the settings."""
    if GIVEN["sandbox"]:
        # Imported here, because it needs the extra [sandbox].
        from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox  # noqa: PLC0415

        more |= {"access_token": SANDBOX_ACCESS_TOKEN, "tenant_id": "demo"}
        return GatewaySession("http://localhost", transport=Sandbox().transport(), **more)
    settings = settings or settings_of()
    with settings.in_words():
        return GatewaySession(**settings.session(needs_tenant=needs_tenant), **more)


ADVICE: Final[dict[type[GatewayError], str]] = {
    errors.MissingExtraError: "",
    errors.JournalError: "",
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

MOST: Final = 200  # characters of a quotation at most
PERSONAL: Final = frozenset({CREATE_CUSTOMER.name, REVISE_CUSTOMER.name})
"""Operations with personal data, which the gateway's message may repeat."""

_LIKE_A_TOKEN: Final = re.compile(r"(?i)\bbearer\s+\S+|[\w~+/=.-]{32,}")
"""What follows the word "bearer", or is longer than any word."""


def explain(error: GatewayError, *, personal: bool = False) -> CommandError:
    step = warning_of(error.outcome, error.repeatability) if error.operation else None
    step = step or next(step for kind, step in ADVICE.items() if isinstance(error, kind))
    words = f"{printable(error.summary)}{quote(error, personal=personal)}"
    return CommandError(f"{words}\n{step}".rstrip(), status_of(error))


def status_of(error: GatewayError) -> int:
    """Return the exit status, which says what happened to a call."""
    misuses = errors.ConfigurationError, errors.InvalidArgumentError
    if isinstance(error, (*misuses, errors.ReceiverUnavailableError)):
        return Status.MISUSED
    if error.operation is None or isinstance(error, errors.LoginError):
        return Status.FAILED
    if error.outcome in (Outcome.NOT_SENT, Outcome.REFUSED):
        return Status.UNCHANGED if error.outcome is Outcome.NOT_SENT else Status.REFUSED
    if error.repeatability is Repeatability.READ:
        return Status.UNCHANGED
    return Status.UNKNOWN if error.outcome is Outcome.UNKNOWN else Status.APPLIED


def warning_of(outcome: Outcome, repeatability: Repeatability | None) -> str | None:
    """Say what matters before a call is repeated; None if nothing does."""
    if repeatability is Repeatability.READ or outcome in (Outcome.NOT_SENT, Outcome.REFUSED):
        return None
    if outcome is Outcome.APPLIED:
        return DONE
    return UNSAFE if repeatability is Repeatability.ONCE else IDEMPOTENT


def quote(error: GatewayError, *, personal: bool = False) -> str:
    """Quote the gateway or the authorization server after a colon; "" if it said nothing."""
    words = ""
    if isinstance(error, errors.AuthorizationDeniedError):
        words = error.description or ("" if error.code in str(error) else error.code)
    elif isinstance(error, errors.StatusError) and error.payload:
        words = _clean(error.payload.message or "")
    # What is no terminal may be a log.
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if words and error.operation in PERSONAL and not (personal or is_terminal):
        return " (--debug shows its words)"
    return f": “{words}”" if words else ""


def _clean(text: str) -> str:
    for variable in ("GATEWAY_ACCESS_TOKEN", "GATEWAY_TOKEN_HEADER"):
        if secret := os.environ.get(variable):
            text = text.replace(secret, "…")
    text = printable(_LIKE_A_TOKEN.sub("…", text)).strip()
    return text if len(text) <= MOST else f"{text[: MOST - 1]}…"
