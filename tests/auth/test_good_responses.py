"""Responses with a token, error responses, and what is kept of the server's texts."""

import hmac
import logging
from urllib.parse import quote, urlencode

import pytest

from gateway_sdk.auth import ImplicitFlow, LoginAttempt, Token
from gateway_sdk.errors import AuthorizationDeniedError, MalformedResponseError, StateMismatchError
from tests.auth.responses import (
    AUTHORIZE,
    CALLBACK,
    CANARY,
    FLOW,
    GOOD,
    NOW,
    SCOPE,
    WAYS,
    WITH_ISSUER,
    Finish,
    fill,
    finish,
    granted,
    paste,
    state_of,
)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(
    ("fragment", "query", "expected"),
    [
        (GOOD, "", granted()),
        (GOOD + "&expires_in=60", "", granted(life=60)),
        (GOOD + "&expires_in=3600", "", granted(life=3600)),
        (GOOD + "&expires_in=0000000060", "", granted(life=60)),
        (GOOD + "&expires_in=1", "", granted(life=1)),
        (GOOD.replace("Bearer", "bEARER"), "", granted()),
        (GOOD + "&scope=read+write", "", granted()),
        (GOOD + "&scope=read%20other", "", granted(scope=frozenset({"read", "other"}))),
        (GOOD.replace("&state={state}", ""), "state={state}", granted()),
        (GOOD.replace("&state={state}", ""), "state={state}&expires_in=60", granted(life=60)),
        (GOOD + "&iss=https%3A%2F%2Fas.test", "", granted()),
        (GOOD, "iss=https%3A%2F%2Fas.test", granted()),
        (GOOD + "&token_type_x=mac&session_state=1&=&x", "", granted()),
        (GOOD, "access_token", granted()),
    ],
)
def test_a_good_answer_brings_its_token(
    fragment: str, query: str, expected: Token, way: Finish
) -> None:
    """The token has the value, the lifetime and the scope of the response, from now on."""
    assert way(FLOW.start(CALLBACK), fragment, query) == expected


@pytest.mark.parametrize("encode", [str, quote, lambda text: quote(text, safe=""), "form"])
@pytest.mark.parametrize("text", ["a+b/c==", "ya29.A-_~+/", "+", "/=", "a" * 4096])
def test_a_token_survives_every_encoding(text: str, encode: object) -> None:
    """Raw or percent-encoded, a plus in a token stays a plus and never becomes a space."""
    encoded = (
        urlencode({"access_token": text})
        if encode == "form"
        else f"access_token={encode(text) if callable(encode) else text}"
    )

    token = finish(FLOW.start(CALLBACK), GOOD.replace(f"access_token={CANARY}", encoded))

    assert token == granted(text)


@pytest.mark.parametrize("iss", ["https://as.test", "https://other.test", ""])
def test_without_an_issuer_any_iss_is_taken(iss: str) -> None:
    """The `iss` of a response is compared only if an issuer was given."""
    flow = ImplicitFlow(AUTHORIZE, "client-1")
    attempt = flow.start(CALLBACK)
    answer = {"access_token": CANARY, "token_type": "Bearer", "state": state_of(attempt)}

    token = flow.finish(attempt, fragment=urlencode(answer | {"iss": iss}), now=NOW)

    assert token == granted(scope=frozenset())


@pytest.mark.parametrize(
    "iss", ["https://as.test/", "HTTPS://as.test", "https://as.test%20", "https://as.tes"]
)
def test_an_iss_is_compared_as_it_stands(iss: str) -> None:
    """Issuers are compared character by character (RFC 9207, 2.4)."""
    with pytest.raises(MalformedResponseError, match="iss"):
        finish(FLOW.start(CALLBACK), f"{GOOD}&iss={iss}")


@pytest.mark.parametrize("answer", [GOOD, "error=access_denied&state={state}"])
def test_with_an_issuer_an_answer_must_have_one(answer: str) -> None:
    """Another server could leave it out; an error response needs it too (RFC 9207, 2.4)."""
    attempt = WITH_ISSUER.start(CALLBACK)
    with pytest.raises(MalformedResponseError, match=r"has no issuer \(iss\)$"):
        WITH_ISSUER.finish(attempt, fragment=fill(answer, attempt), now=NOW)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("access_denied", "login was refused"),
        ("account_selection_required", "must choose an account"),
        ("consent_required", "must consent"),
        ("interaction_required", "must answer a question"),
        ("invalid_request", "does not accept the request"),
        ("invalid_scope", "does not know the scope"),
        ("login_required", "must log in"),
        ("server_error", "server failed"),
        ("temporarily_unavailable", "too busy"),
        ("unauthorized_client", "may not use the implicit flow"),
        ("unsupported_response_type", "does not offer the implicit flow"),
    ],
)
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("in_query", [False, True])
def test_a_standard_error_code_is_explained(
    code: str, words: str, way: Finish, in_query: bool
) -> None:
    """The message explains a standard error code and names it, from fragment or query."""
    answer = f"error={code}&state={{state}}"

    with pytest.raises(AuthorizationDeniedError, match=words) as caught:
        way(FLOW.start(CALLBACK), *(("", answer) if in_query else (answer,)))

    assert str(caught.value).endswith(f"({code})")
    assert (caught.value.code, caught.value.description, caught.value.uri) == (code, "", "")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("said it", "said it"),
        ("\x1b[31mred\x1b]0;t\x07", "?[31mred?]0;t?"),
        ('"quoted" \\ back', "?quoted? ? back"),
        ("one\r\ntwo\ttabs", "one??two?tabs"),
        ("\xe4\u202e\ud7ff", "???"),
        ("\x7f\x00", "??"),
        ("it's <b>", "it's <b>"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 300 + "..."),
        ("x" * 10_000, "x" * 300 + "..."),
    ],
)
def test_texts_of_a_server_are_made_harmless(given: str, kept: str) -> None:
    """Code, description and URI are on one line, printable and short; messages do not show them."""
    answer = urlencode({"error": given, "error_description": given, "error_uri": given})

    with pytest.raises(AuthorizationDeniedError) as caught:
        finish(FLOW.start(CALLBACK), answer + "&state={state}")

    error = caught.value
    assert (error.code, error.description, error.uri) == (kept, kept, kept)
    assert str(error) == "the authorization server refused the login"


def test_an_invalid_lifetime_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One warning says that expires_in is invalid, without its text."""
    with caplog.at_level(logging.WARNING):
        finish(FLOW.start(CALLBACK), f"{GOOD}&expires_in={CANARY}")
        finish(FLOW.start(CALLBACK), f"{GOOD}&expires_in=")
        finish(FLOW.start(CALLBACK), f"{GOOD}&expires_in=60")

    (record,) = caplog.records
    assert record.name == "gateway_sdk.auth"
    assert record.levelname == "WARNING"
    assert "expires_in" in record.getMessage()
    assert CANARY not in record.getMessage()


def test_states_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every single state is compared with hmac.compare_digest, whose result decides."""
    compared: list[tuple[object, object]] = []

    def never(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return False

    monkeypatch.setattr(hmac, "compare_digest", never)
    attempt = FLOW.start(CALLBACK)
    ours = state_of(attempt).encode()

    for state in (b"another", ours):
        with pytest.raises(StateMismatchError):
            finish(attempt, f"{GOOD.replace('{state}', state.decode())}")
        assert set(compared.pop()) == {state, ours}


@pytest.mark.parametrize(
    ("redirect_uri", "address"),
    [
        (CALLBACK, "HTTP://127.0.0.1:53412/callback"),
        (CALLBACK, f"{CALLBACK}?"),
        (CALLBACK, f"{CALLBACK}?own=1"),
        (f"{CALLBACK}?own=1", f"{CALLBACK}?own=1"),
        ("http://[::1]:53412/", "http://[::1]:53412/"),
        ("http://127.0.0.1:53412", "http://127.0.0.1:53412/"),
        ("http://127.0.0.1:53412?own=1", "http://127.0.0.1:53412/?own=1"),
        ("https://app.test:443/cb", "https://app.test/cb"),
        ("https://APP.test/cb", "https://app.test/cb"),
        ("https://app.test/\xe4", "https://app.test/%C3%A4"),
    ],
)
def test_a_redirect_uri_is_recognized_as_browsers_write_it(redirect_uri: str, address: str) -> None:
    """URLs that browsers write differently but that mean the same are the same redirect URI."""
    attempt: LoginAttempt = FLOW.start(redirect_uri)

    assert paste(attempt, f"{address}#{GOOD}") == granted(scope=SCOPE)
