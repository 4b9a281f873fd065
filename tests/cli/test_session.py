import asyncio
import os
import signal
from collections.abc import Mapping
from operator import methodcaller
from pathlib import Path

import pytest
from starlette.responses import JSONResponse

from gateway_sdk import errors
from gateway_sdk.areas.aml import KycArea
from gateway_sdk.cli import arguments
from gateway_sdk.cli.login import for_a_shell, place_of
from gateway_sdk.cli.process import Stop
from gateway_sdk.cli.session import DONE, explain, quote, settings_of_command
from gateway_sdk.errors import GatewayError
from gateway_sdk.models import ErrorPayload
from gateway_sdk.outcome import Attempt, Outcome, Repeatability
from gateway_sdk.sandbox import Fault, Sandbox
from tests.cli.logins import CANARY, keep
from tests.cli.support import Call, Start, interrupt

GIVEN = ("https://gateway.test/api", "https://login.test/authorize", "client-1")
VARIABLES = ("GATEWAY_BASE_URL", "GATEWAY_AUTH_URL", "GATEWAY_CLIENT_ID")
UNSURE = "Check before you repeat it: it may have been done already."


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


@pytest.mark.posix
@pytest.mark.parametrize("name", sorted({*Stop.NAMES} - {"BREAK", "ALRM"}))
@pytest.mark.parametrize("ignores_ctrl_c", [False, True])
def test_every_signal_that_ends_a_write_says_so(
    call_gateway: Call, served: Sandbox, name: str, *, ignores_ctrl_c: bool
) -> None:
    """As Ctrl-C does, which what a shell starts with "&" ignores. SIGALRM is pytest-timeout's."""
    number, before = getattr(signal, f"SIG{name}"), signal.getsignal(signal.SIGINT)
    if ignores_ctrl_c:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        ended = interrupt(call_gateway, served, "send_webhook", "kyc", "webhook", number=number)
    finally:
        signal.signal(signal.SIGINT, before)

    assert ended == (128 + number, "", f"gateway: stopped by SIG{name}\n{UNSURE}\n")
    assert signal.getsignal(number) is signal.SIG_DFL


@pytest.mark.posix
def test_a_terminal_that_is_closed_ends_a_write_with_its_status(
    start_gateway: Start, served: Sandbox
) -> None:
    """Nobody reads what it says; the status of a job tells it."""
    served.faults.on("send_webhook", Fault.latency(3600))
    process = start_gateway("kyc", "webhook")
    while not served.received:
        assert process.poll() is None
        os.sched_yield()
    assert process.stderr
    process.stderr.close()
    process.send_signal(signal.SIGHUP)

    assert process.wait() == 129


@pytest.mark.posix
def test_what_ignores_a_signal_goes_on_ignoring_it() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop.told():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("lost", [False, True])
def test_ctrl_c_just_after_a_write_tells_what_became_of_it(
    call_gateway: Call, served: Sandbox, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """The session closes after the call, and the loop ends: the result is not yet shown."""
    send = KycArea.send_webhook

    async def send_and_press(area: KycArea) -> None:
        try:
            await send(area)
        finally:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)

    monkeypatch.setattr(KycArea, "send_webhook", lambda area, *_: send_and_press(area))
    if lost:
        served.faults.on("send_webhook", Fault.drop_after_read())

    ended = call_gateway("kyc", "webhook")

    told = f"{UNSURE if lost else DONE}\n"
    assert ended == (130, "", f"\ngateway: stopped by Ctrl-C\n{told}")


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
    error = errors.AuthorizationDeniedError("refused (access_denied)")
    error.code, error.description = code, description

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
    monkeypatch.setattr("gateway_sdk.cli.session._SENT", {"opaque-token-1", "shh"})

    assert quote(error_of(message)) == quoted


BULK = "bulk rates --base EUR --symbols USD --start 2026-10-01 --end 2026-10-30 --split 5d"


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    ("command", "status"), [("wallet balance", 403), (f"{BULK} --patience 0", 503)]
)
def test_gateway_is_quoted_without_what_was_sent_to_it(
    call_gateway: Call,
    served: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    stored: bool,
    command: str,
    status: int,
) -> None:
    """A short token of a login or of the environment, and the header out of a file; at any time."""
    for name, text in zip(VARIABLES[1:], GIVEN[1:], strict=True):
        monkeypatch.setenv(name, text)
    monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", "" if stored else CANARY)
    keep()
    (tmp_path / "header").write_text("shh")
    reply = JSONResponse({"message": f"shh, {CANARY} is not known"}, status)
    served.faults.anywhere(Fault("a reply", methodcaller("reply", reply)))
    out = ["--out", tmp_path / "rates.csv"] if "bulk" in command else []

    told = call_gateway(*command.split(), *out, "--token-header-file", tmp_path / "header").err

    assert "“…, … is not known”" in told
    assert "shh" not in told
    assert CANARY not in told


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


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    found = dict(zip(VARIABLES, GIVEN, strict=True))
    for name, text in found.items():
        monkeypatch.setenv(name, text)
    return found


@pytest.mark.usefixtures("complete")
def test_settings_that_workers_lack_are_told_in_a_shells_spelling() -> None:
    arguments.GIVEN.update(base_url="https://other.test", client_id="it's me")

    assert for_a_shell(settings_of_command()) == [
        "export GATEWAY_BASE_URL=https://other.test",
        """export GATEWAY_CLIENT_ID='it'"'"'s me'""",
    ]


@pytest.mark.usefixtures("complete")
@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("keyring", "keyring"),
        ("redis://:canary@localhost:6380/1", "redis://localhost:6380/1"),
        ("rediss://user:canary@redis.test?password=canary", "rediss://redis.test"),
        ("unix://user:canary@/run/redis.sock", "unix:///run/redis.sock"),
    ],
)
def test_place_is_told_without_a_password(
    monkeypatch: pytest.MonkeyPatch, setting: str, place: str
) -> None:
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", setting)

    assert place_of(settings_of_command()) == place
