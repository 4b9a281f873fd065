import pytest

from gateway_sdk.cli.session import quote
from gateway_sdk.errors import GatewayError, NotFoundError, ServerError
from gateway_sdk.models import ErrorPayload
from gateway_sdk.outcome import Repeatability


def error_of(message: object, operation: str = "exchange_rate_series") -> GatewayError:
    error = NotFoundError("404", status=404).of_call(operation, Repeatability.READ, ())
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
def test_gateway_is_quoted_on_people_only_if_asked_for(operation: str) -> None:
    """It may repeat a name or a password that it does not like; a log must not hold that."""
    error = error_of("password 'canary' is too short", operation)

    assert quote(error) == " (--debug shows its words)"
    assert quote(error, personal=True) == ": “password 'canary' is too short”"
    assert quote(error_of("", operation)) == ""


def test_error_without_a_payload_has_no_words() -> None:
    """A proxy's page is not quoted."""
    assert quote(ServerError("502", status=502)) == ""
