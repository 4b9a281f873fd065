"""The result of each response: for its login, for the next response, and in what is shown."""

import hmac
import logging
from collections.abc import Callable
from urllib.parse import quote

import pytest

from gateway_sdk.auth import ImplicitFlow, LoginAttempt, Token
from gateway_sdk.auth.flow import _REASONS
from gateway_sdk.errors import (
    AuthorizationDeniedError,
    LoginError,
    MalformedResponseError,
    StateMismatchError,
)
from tests.auth.responses import (
    AUTHORIZE,
    CALLBACK,
    CASES,
    FLOW,
    GOOD,
    NO_STATE,
    NOW,
    WAYS,
    WITH_ISSUER,
    Case,
    fill,
    finish,
    granted,
    log_book,
    paste,
    state_of,
    told,
)
from tests.support.secrecy import CANARY

DENIED = "error=access_denied&state={state}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_each_response_has_its_result(
    case: Case, way: Callable[[LoginAttempt, str, str], Token]
) -> None:
    """With the login's state it ends the attempt, else the right one still counts; none leaks."""
    attempt = FLOW.start(CALLBACK)
    result: Token | type[LoginError]
    with log_book() as lines:
        try:
            parts = (attempt, case.fragment, case.query)
            result = paste(attempt, case.pasted) if case.pasted else way(*parts)
            lines.append(f"{result} {result!r}")
        except LoginError as error:
            result = type(error)
            lines.append(told(error))
        assert result == case.expected
        assert attempt.is_open is (case.expected is StateMismatchError)
        lines.append(f"{attempt!r} {attempt} {FLOW!r}")
        if attempt.is_open:
            assert finish(attempt, GOOD) == granted()
        for again in (GOOD, DENIED):
            with pytest.raises(StateMismatchError, match="used before") as caught:
                finish(attempt, again)
            lines.append(told(caught.value))
    for secret in (CANARY, state_of(attempt), state_of(attempt).swapcase()):
        assert not any(secret in line for line in lines)


def test_an_attempt_accepts_only_its_own_response() -> None:
    first, second = FLOW.start(CALLBACK), FLOW.start(CALLBACK)
    with pytest.raises(StateMismatchError, match="another login") as caught:
        finish(second, fill(GOOD, first))
    assert not any(secret in told(caught.value) for secret in (state_of(first), state_of(second)))
    assert finish(second, GOOD) == finish(first, GOOD) == granted()
    with pytest.raises(StateMismatchError, match="another login"):
        finish(first, fill(GOOD, second))


@pytest.mark.parametrize("in_query", [0, 1, 30_000])
def test_the_longest_response_has_64_kib(in_query: int) -> None:
    """Fragment and query together."""
    for too_long in (0, 1):
        attempt = FLOW.start(CALLBACK)
        room = 64 * 1024 + too_long - in_query - len(fill(f"{GOOD}&x=", attempt))
        fragment, query = f"{GOOD}&x={'1' * room}", "x" * in_query
        if not too_long:
            assert finish(attempt, fragment, query) == granted()
            continue
        with pytest.raises(MalformedResponseError, match="longer than 65536"):
            finish(attempt, fragment, query)


def test_an_issuer_is_required_if_one_was_given_and_only_then() -> None:
    """Another server could leave it out; an error response needs it too (RFC 9207, 2.4)."""
    for answer in (GOOD, DENIED):
        attempt = WITH_ISSUER.start(CALLBACK)
        with pytest.raises(MalformedResponseError, match=r"has no issuer \(iss\)$"):
            WITH_ISSUER.finish(attempt, fragment=fill(answer, attempt), now=NOW)
    with pytest.raises(MalformedResponseError, match=r"has another issuer \(iss\)$"):
        finish(FLOW.start(CALLBACK), f"{GOOD}&iss=https://evil.test")
    flow = ImplicitFlow(AUTHORIZE, "client-1")
    for iss in ("https://as.test", "https://other.test", ""):
        attempt = flow.start(CALLBACK)
        token = flow.finish(attempt, fragment=fill(f"{GOOD}&iss={iss}", attempt), now=NOW)
        assert token == granted(scope=frozenset())


@pytest.mark.parametrize("code", _REASONS)
def test_a_standard_error_code_is_explained(code: str) -> None:
    with pytest.raises(AuthorizationDeniedError, match=rf"^{_REASONS[code]} \({code}\)$") as caught:
        finish(FLOW.start(CALLBACK), "", f"error={code}&state={{state}}")
    assert (caught.value.code, caught.value.description, caught.value.uri) == (code, "", "")


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("see #access_token=SECRET&state={state}", "see #access_token=SECRET&state={state}"),
        ("\x1b[31mred\x1b]0;t\x07", "?[31mred?]0;t?"),
        ('"quoted" \\ back', "?quoted? ? back"),
        ("\xe4\u202e\ud7ff\x7f\x00", "?????"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 300 + "..."),
    ],
)
def test_texts_of_a_server_are_made_harmless(said: str, kept: str) -> None:
    """They are on one line, printable and short, and only in the attributes of the error."""
    attempt = FLOW.start(CALLBACK)
    text = quote(fill(said, attempt))
    with log_book() as lines, pytest.raises(AuthorizationDeniedError) as caught:
        finish(attempt, f"error={text}&error_description={text}&error_uri={text}&state={{state}}")
    error, kept = caught.value, fill(kept, attempt)
    assert (error.code, error.description, error.uri) == (kept, kept, kept)
    assert str(error) == "the authorization server refused the login"
    assert not any(kept in line or state_of(attempt) in line for line in (*lines, told(error)))


def test_an_invalid_lifetime_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    for life in (CANARY, "", "60"):
        finish(FLOW.start(CALLBACK), f"{GOOD}&expires_in={life}")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("gateway_sdk.auth", logging.WARNING)
    assert record.getMessage().startswith("expires_in is not a number of seconds: ")


def test_states_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every single state is compared with hmac.compare_digest, whose result decides."""
    compared: list[set[bytes]] = []
    monkeypatch.setattr(hmac, "compare_digest", lambda *both: compared.append(set(both)))
    attempt = FLOW.start(CALLBACK)
    for state in ("another", state_of(attempt)):
        with pytest.raises(StateMismatchError):
            finish(attempt, f"{NO_STATE}&state={state}")
        assert compared.pop() == {state.encode(), state_of(attempt).encode()}


@pytest.mark.parametrize(
    ("redirect_uri", "address"),
    [
        (CALLBACK, "HTTP://127.0.0.1:53412/callback"),
        (f"{CALLBACK}?own=1", f"{CALLBACK}?own=1"),
        ("http://127.0.0.1:53412?own=1", "http://127.0.0.1:53412/?own=1"),
        ("https://app.test:443/cb", "https://app.test/cb"),
        ("https://app.test/\xe4", "https://app.test/%C3%A4"),
    ],
)
def test_a_redirect_uri_is_recognized_as_browsers_write_it(redirect_uri: str, address: str) -> None:
    assert paste(FLOW.start(redirect_uri), f"{address}#{GOOD}") == granted()
