"""The settings of a command, its session, and what its errors say."""

import asyncio
import logging
import re
import sys
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, Final, TypeVar

from gateway_sdk import errors
from gateway_sdk.auth import SharedTokenSource, Token
from gateway_sdk.cli.arguments import GIVEN, read_line
from gateway_sdk.cli.process import CommandError, Status, printable, say
from gateway_sdk.errors import GatewayError
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.operations import CREATE_CUSTOMER, REVISE_CUSTOMER
from gateway_sdk.outcome import Advice, Attempt, Outcome, Repeatability
from gateway_sdk.session import (
    ENVIRONMENT,
    GatewaySession,
    token_store,
    with_access_token,
    with_environment,
)

# None may be secret: others on a machine can read the arguments of its processes.
OPTION_OF: Final = {
    "base_url": "--base-url",
    "tenant_id": "--tenant",
    "token_header": "--token-header-file",
    "auth_url": "--auth-url",
    "client_id": "--client-id",
    "redirect_uri": "--redirect-uri",
    "scope": "--scope",
    "timeout": "--timeout",
}


def settings_of_command() -> dict[str, str]:
    if (path := GIVEN.pop("token_header_file", None)) is not None:
        GIVEN["token_header"] = path and read_line(path)
    given = {name: GIVEN[name] for name in OPTION_OF if GIVEN.get(name) is not None}
    for name, text in given.items():
        if not text:  # such as "$TENANT" of a script that lacks the variable
            raise CommandError(f"{OPTION_OF[name]} is empty")
    try:
        return with_environment(given)
    except errors.ConfigurationError as error:  # it is for another gateway
        advice = "Unset it, or set both for the gateway of --base-url."
        raise CommandError(f"{error.setting} {error.problem}\n{advice}") from error


def source_of(setting: str) -> str:
    if setting in ENVIRONMENT and GIVEN.get(setting) is None:
        return ENVIRONMENT[setting]
    return OPTION_OF.get(setting, setting)


T = TypeVar("T")

LONG: Final = 2.0  # seconds: the reason for a longer wait is shown


class _StoredToken(SharedTokenSource):
    def ready(self) -> Token | None:
        """Note the token, because a gateway may quote it."""
        if (token := super().ready()) is not None:
            _SENT.add(token.value.get_secret_value())
        return token


class _Witness(Observer):
    """Keeps what happened to the last call, for Ctrl-C, and reports long waits."""

    warning = ""  # what matters before the call is repeated

    def __init__(self, *, tells_waits: bool) -> None:
        self._tells_waits = tells_waits

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        if self._tells_waits and seconds >= LONG:
            reason = attempt.status or attempt.error
            say(f"{call.operation.name}: trying again in {seconds:.0f} s ({reason})")

    def call_finished(self, call: CallInfo, outcome: Outcome, *_: Any, **__: Any) -> None:
        # Also after a call that was not cut, Ctrl-C hides what became of it.
        self.warning = fate_of(outcome, call.operation.repeatability)[1]


def ask(
    work: Callable[[GatewaySession], Awaitable[T]],
    *,
    needs_tenant: bool = False,
    tells_waits: bool = True,
    parse_float: Callable[[str], Any] = Decimal,
) -> T:
    witness = _Witness(tells_waits=tells_waits and not GIVEN["verbose"])
    if GIVEN["verbose"]:
        # The SDK's log has no values and no secrets. It ends with the process.
        logger = logging.getLogger("gateway_sdk")
        logger.addHandler(logging.StreamHandler())
        logger.setLevel(logging.DEBUG)
    # Commands say in their own words what a bulk run waits for, except for its journal.
    logging.getLogger("gateway_sdk.bulk").setLevel(logging.ERROR)
    logging.getLogger("gateway_sdk.bulk.journal").setLevel(logging.WARNING)

    async def asking() -> T:
        more: Any = {"parse_float": parse_float, "observers": [witness]}
        if GIVEN["deadline"] is not None:
            more["deadline"] = GIVEN["deadline"]
        async with _session(needs_tenant=needs_tenant, **more) as gateway:
            return await work(gateway)

    try:
        return asyncio.run(asking())
    except KeyboardInterrupt:
        raise KeyboardInterrupt(witness.warning) from None


def _session(*, needs_tenant: bool, **more: Any) -> GatewaySession:
    if GIVEN["sandbox"]:
        # Imported here, because it needs the extra [sandbox].
        from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox  # noqa: PLC0415

        for option in ("--base-url", "--auth-url", "--client-id", "--token-header-file"):
            if GIVEN[option[2:].replace("-", "_")] is not None:
                raise CommandError(f"{option} has no effect with --sandbox: leave one of them out")
        tenant = "demo" if GIVEN["tenant_id"] is None else GIVEN["tenant_id"]
        more |= {"access_token": SANDBOX_ACCESS_TOKEN, "tenant_id": tenant}
        return GatewaySession("http://localhost", transport=Sandbox().transport(), **more)
    values = settings_of_command()
    _SENT.update(values[name] for name in ("access_token", "token_header") if name in values)
    if "access_token" in values and (GIVEN["auth_url"] or GIVEN["client_id"]):
        problem = "would be used in place of the login of --auth-url and --client-id"
        advice = "Unset it, or leave these options out."
        raise CommandError(f"GATEWAY_ACCESS_TOKEN {problem}\n{advice}")
    given = with_access_token(values)
    if "access_token" not in values:
        given["access_token"] = _StoredToken(token_store(values))
    if needs_tenant and "tenant_id" not in values:
        raise errors.ConfigurationError("is not set", setting="GATEWAY_TENANT_ID")
    return GatewaySession(**given, **more)


UNSAFE: Final = "Check before you repeat it: it may have been done already."
IDEMPOTENT: Final = "It may have been done already; running it again does no harm."
DONE: Final = "It was done, so do not repeat it: only the reply could not be used."

MOST: Final = 200  # characters of a quotation at most
PERSONAL: Final = frozenset({CREATE_CUSTOMER.name, REVISE_CUSTOMER.name})
"""Operations with personal data, which the gateway's message may repeat."""

_SENT: Final[set[str]] = set()
"""The secrets that this process has sent: a gateway may quote them."""

_LIKE_A_TOKEN: Final = re.compile(r"(?i)\bbearer\s+\S+|[\w~+/=.-]{32,}")
"""What follows the word "bearer", or is longer than any word."""


def explain(error: GatewayError, *, personal: bool = False) -> CommandError:
    """Say what went wrong and what to do next, with the exit status of what became of a call."""
    status, step, words = Status.FAILED, "", error.summary
    if error.operation:
        status, step = fate_of(error.outcome, error.repeatability)
    elif isinstance(error, errors.OutageError):
        status = Status.UNCHANGED
    misused = errors.InvalidArgumentError, errors.JournalError, errors.ReceiverUnavailableError
    if isinstance(error, misused):
        status = Status.MISUSED
    if isinstance(error, errors.ConfigurationError):
        name = "auth_url" if error.setting == "authorization_url" else error.setting or ""
        words = f"{source_of(name)} {error.problem}".lstrip()
        status = Status.MISUSED
    wait = getattr(error, "retry_after", None) if error.advice is Advice.REPEAT else None
    step = step or (f"The gateway asks for a wait of {wait:.0f} s." if wait else error.hints[1])
    if "half of a" in words:
        step = "Is each argument in the encoding of the terminal?"
    if GIVEN.get("sandbox") and isinstance(error, errors.NotFoundError):
        step = "Check the spelling."
    if error.operation == CREATE_CUSTOMER.name and isinstance(error, errors.InvalidArgumentError):
        step = "`gateway customer example` prints a file with every field."
    for name, variable in ENVIRONMENT.items():
        step = step.replace(variable, source_of(name))
    told = f"{printable(words)}{quote(error, personal=personal)}\n{step}"
    return CommandError(told.rstrip(), status)


def fate_of(outcome: Outcome, repeatability: Repeatability | None) -> tuple[Status, str]:
    """Return the exit status of a call, and what matters before it is repeated; "" if nothing."""
    if outcome is Outcome.REFUSED:
        return Status.REFUSED, ""
    if outcome is Outcome.NOT_SENT or repeatability is Repeatability.READ:
        return Status.UNCHANGED, ""
    if outcome is Outcome.APPLIED:
        return Status.APPLIED, DONE
    return Status.UNKNOWN, UNSAFE if repeatability is Repeatability.ONCE else IDEMPOTENT


def quote(error: GatewayError, *, personal: bool = False) -> str:
    """Quote the gateway or the authorization server after a colon; "" if it said nothing."""
    words = ""
    if isinstance(error, errors.AuthorizationDeniedError):
        words = error.description or ("" if error.code in str(error) else error.code)
    elif isinstance(error, errors.StatusError) and error.payload:
        words = error.payload.message or ""
        for secret in sorted(_SENT, key=len, reverse=True):  # one may begin another
            words = words.replace(secret, "…")
        words = printable(_LIKE_A_TOKEN.sub("…", words)).strip()
        words = words if len(words) <= MOST else f"{words[: MOST - 1]}…"
    # What is no terminal may be a log.
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    if words and error.operation in PERSONAL and not (personal or is_terminal):
        return " (--debug shows its words)"
    return f": “{words}”" if words else ""
