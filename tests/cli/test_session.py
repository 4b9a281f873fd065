import os

import pytest

from gateway_sdk import errors
from gateway_sdk.cli.session import ADVICE, explain, quote
from gateway_sdk.errors import GatewayError
from gateway_sdk.models import ErrorPayload
from gateway_sdk.outcome import Attempt, Outcome, Repeatability
from gateway_sdk.sandbox import Sandbox
from tests.cli.support import Call, interrupt

UNSURE = "Check before you repeat it: it may have been done already."


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("countries", "GATEWAY_BASE_URL is not set"),
        ("bulk rates --base EUR --out none/x.csv", "cannot write none/x.csv: there is no folder"),
    ],
)
def test_debugging_shows_where_a_command_gave_up(
    call_gateway: Call, command: str, words: str
) -> None:
    """The status and the message are those without it."""
    plain, debugged = call_gateway(*command.split()), call_gateway(*command.split(), "--debug")

    assert debugged.status == plain.status == 2
    assert plain.err.startswith(f"gateway: {words}")
    assert debugged.err.startswith("Traceback (most recent call last):\n")
    assert debugged.err.endswith(f"\n{plain.err}")


@pytest.mark.parametrize(
    ("operation", "command", "warning"),
    [
        ("list_countries", "countries", ""),  # nothing has to be known
        ("send_webhook", "kyc webhook", f"{UNSURE}\n"),
        (
            "cancel_order",
            "wallet cancel wallet-0004 order-0056 --yes",
            "It may have been done already; running it again does no harm.\n",
        ),
    ],
)
def test_interrupted_call_may_have_been_done(
    call_gateway: Call, served: Sandbox, operation: str, command: str, warning: str
) -> None:
    """Whoever presses Ctrl-C is told what nobody knows now."""
    ended = interrupt(call_gateway, served, operation, *command.split())

    assert ended == (130, "", f"\ngateway: stopped by Ctrl-C\n{warning}")


def test_gateway_and_tenant_may_be_options(
    call_gateway: Call, served: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = os.environ["GATEWAY_BASE_URL"]
    monkeypatch.delenv("GATEWAY_BASE_URL")
    monkeypatch.delenv("GATEWAY_TENANT_ID")

    ended = call_gateway(
        "--base-url", address, "wallet", "orders", "--take", "1", "--tenant", "acme"
    )

    assert ended.status == 0
    assert len(ended.out.splitlines()) == 2


@pytest.mark.parametrize(
    ("error", "next_step", "status"),
    [
        (errors.ConfigurationError("GATEWAY_BASE_URL is not set"), "`gateway status`", 2),
        (errors.InvalidArgumentError("symbols is empty"), "--help", 2),
        (errors.AuthError("no token"), "GATEWAY_ACCESS_TOKEN", 1),
        (errors.TokenRejectedError("401 again", status=401), "GATEWAY_AUTH_URL", 1),
        (errors.ReceiverUnavailableError("the port is taken"), "--redirect-uri", 2),
        (errors.LoginError("nothing was pasted"), "Log in again", 1),
        (errors.DeadlineExceededError("too slow"), "does no harm", 1),
        (errors.JournalError("there are no tables: run `gateway fleet init`"), "", 1),
    ],
)
def test_error_comes_with_the_next_step(error: GatewayError, next_step: str, status: int) -> None:
    failure = explain(error)

    first, _, second = str(failure).partition("\n")
    assert first == str(error)
    assert (next_step in second, not second) == (True, not next_step)
    assert failure.status == status


def test_no_error_has_the_advice_of_a_wider_kind() -> None:
    """The first that fits is used, so a kind stands before those it is one of."""
    kinds = list(ADVICE)

    for place, kind in enumerate(kinds):
        assert not issubclass(kind, tuple(kinds[:place]) or ())


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
    attempt = Attempt(outcome=outcome, status=None, error="Error", elapsed=1.0)
    error = errors.DeadlineExceededError("too slow").of_call("call", repeatability, (attempt,))

    failure = explain(error)

    assert failure.status == status
    assert next_step in str(failure).splitlines()[1]


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
    error = errors.AuthorizationDeniedError(
        "refused (access_denied)", code=code, description=description
    )

    assert str(explain(error)).splitlines()[0] == first


def error_of(message: object, operation: str = "exchange_rate_series") -> GatewayError:
    error = errors.NotFoundError("404", status=404).of_call(operation, Repeatability.READ, ())
    error.payload = ErrorPayload.model_validate({"message": message})
    return error


@pytest.mark.parametrize(
    ("message", "quoted"),
    [
        ("no reference rates for XXX", ": “no reference rates for XXX”"),
        (" ", ""),
        (None, ""),
        (12, ""),
        ("red \x1b[31m\nalert", ": “red \\x1b[31m\\nalert”"),
        ("the token opaque-token-1 is unknown", ": “the token … is unknown”"),
        ("header: shh", ": “header: …”"),
        ("Authorization: Bearer abc", ": “Authorization: …”"),
        ("unknown " + "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx", ": “unknown …”"),
        ("word " * 100, f": “{('word ' * 100)[:199]}…”"),
    ],
)
def test_gateway_is_quoted_without_secrets(
    monkeypatch: pytest.MonkeyPatch, message: object, quoted: str
) -> None:
    """Its words are one printable line, not too long, without what looks like a token."""
    monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", "opaque-token-1")
    monkeypatch.setenv("GATEWAY_TOKEN_HEADER", "shh")

    assert quote(error_of(message)) == quoted


@pytest.mark.parametrize("operation", ["create_customer", "revise_customer"])
def test_gateway_is_quoted_on_people_only_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """It may repeat a name or a password that it does not like; a log must not hold that."""
    error = error_of("password 'canary' is too short", operation)

    assert quote(error) == " (--debug shows its words)"
    assert quote(error, personal=True) == ": “password 'canary' is too short”"
    assert quote(error_of("", operation)) == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert quote(error) == ": “password 'canary' is too short”"


def test_error_without_a_payload_has_no_words() -> None:
    assert quote(errors.ServerError("502", status=502)) == ""
