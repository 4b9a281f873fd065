"""The result of each response: for its login, for the next response, and in what is shown."""

import hmac
import logging
from collections.abc import Callable
from dataclasses import replace
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit

import pytest
from hypothesis import given, settings, strategies as st

from gateway_sdk.auth import ImplicitFlow, LoginAttempt, Token
from gateway_sdk.auth.flow import _REASONS
from gateway_sdk.auth.token import text_of
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


@pytest.mark.parametrize("in_query", [0, 1, 30_000])
def test_the_longest_response_has_64_kib(in_query: int) -> None:
    for too_long in (0, 1):
        attempt = FLOW.start(CALLBACK)
        room = 64 * 1024 + too_long - in_query - len(fill(f"{GOOD}&x=", attempt))
        fragment, query = f"{GOOD}&x={'1' * room}", "x" * in_query
        if not too_long:
            assert finish(attempt, fragment, query) == granted()
            continue
        with pytest.raises(MalformedResponseError, match="longer than 65536"):
            finish(attempt, fragment, query)


def test_what_the_redirect_uri_has_itself_is_no_part_of_the_response() -> None:
    """Servers send its query back; what they add to it counts."""
    own = "iss=x&expires_in=9&token_type=mac"
    attempt = FLOW.start(f"{CALLBACK}?{own}")
    answer = fill(GOOD, attempt)
    assert FLOW.finish(attempt, fragment=answer, query=own, now=NOW) == granted()
    attempt = FLOW.start(f"{CALLBACK}?{own}")
    denied = fill(f"{own}&error=access_denied&state={{state}}", attempt)
    with pytest.raises(AuthorizationDeniedError):
        FLOW.finish(attempt, fragment="", query=denied, now=NOW)


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


STATE = "s3cret-STATE_0123456789abcdefghijklmnopqrst"
OURS = ("state", STATE)
CORE = [("access_token", CANARY), ("token_type", "Bearer"), ("expires_in", "60"), OURS]
NAMES = [*dict(CORE), "error", "error_description", "iss", "scope", "refresh_token"]
VALUES = [CANARY, STATE, "Bearer", "mac", "60", "0", "read write", "access_denied", ""]

# Lone surrogates too: JSON, file names and terminals can contain them.
anything = st.text(
    st.characters(exclude_categories=())
    | st.characters(categories=["Cs"])
    | st.sampled_from("&=#?%+;/:@ \t\r\n\x00\x1b"),
    max_size=12,
)
more = st.tuples(st.sampled_from(NAMES) | anything, st.sampled_from(VALUES) | anything)
addresses = st.sampled_from(["", " {}", "{}?x", "{}/", "{};x", "x{}"]).map(
    lambda text: (text or "{}").format(CALLBACK)
) | st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["http://", "https://", "HTTP://", "//", ""]) | anything,
    st.sampled_from(["127.0.0.1", "[::1]", "[", "xn--0", "u:p@127.0.0.1"]) | anything,
    st.sampled_from([":53412", ":0", ":x", ":99999999", ":\u0661", ""]) | anything,
    st.sampled_from(["/callback", "/%63allback", "/./callback", ""]) | anything,
)


def _percent_encoded(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))


def _as_in_a_form(text: str) -> str:
    return quote_plus(text, errors="surrogatepass")


@st.composite
def responses(draw: st.DrawFn) -> tuple[str, str]:
    """Draw a fragment and a query: most of the usual parameters, in any order, and a few more."""
    pairs = [pair for pair in CORE if draw(st.integers(0, 9))]
    pairs = draw(st.permutations(pairs + draw(st.lists(more, max_size=2))))
    ways: list[Callable[[str], str]] = [str, _as_in_a_form, _percent_encoded]
    encode = st.sampled_from(ways)
    pieces = [f"{draw(encode)(name)}={draw(encode)(value)}" for name, value in pairs]
    separator = draw(st.sampled_from(["&"] * 16 + ["&&", ";", "#", "&amp;"]))
    border = draw(st.just(len(pieces)) | st.integers(0, len(pieces)))
    return separator.join(pieces[:border]), separator.join(pieces[border:])


def attempt() -> LoginAttempt:
    return LoginAttempt(f"https://as.test/?state={STATE}", CALLBACK, STATE)


def require_silence(result: Token | LoginError, lines: list[str]) -> None:
    """Require that neither token nor state is in anything that can be printed.

    But for the scope, which is no secret, and in which a server may put any word.
    """
    if isinstance(result, Token):
        result = replace(result, scope=frozenset())
    shown = told(result) if isinstance(result, LoginError) else f"{result} {result!r}"
    assert not any(secret in text for secret in (CANARY, STATE) for text in (shown, *lines))


def pairs_of(text: str) -> list[tuple[str, str]]:
    return parse_qsl(text, keep_blank_values=True)


@settings(deadline=None, max_examples=4 * settings().max_examples)
@given(responses() | st.tuples(anything, anything), st.booleans())
def test_a_response_is_a_token_or_a_login_error(parts: tuple[str, str], pasted: bool) -> None:
    """A token needs one state, ours, one token in the fragment and no error; no text leaks."""
    ours, (fragment, query) = attempt(), parts
    url = f"{CALLBACK}?{query}#{fragment}"
    result: Token | LoginError
    with log_book() as lines:
        try:
            if pasted:
                result = FLOW.finish_url(ours, url, now=NOW)
            else:
                result = FLOW.finish(ours, fragment=fragment, query=query, now=NOW)
        except LoginError as error:
            result = error
    require_silence(result, lines)
    assert ours.is_open == isinstance(result, StateMismatchError)
    if not isinstance(result, Token):
        return
    if pasted:
        seen = urlsplit("".join(url.split()))
        fragment, query = seen.fragment, seen.query
    kept = pairs_of(fragment.replace("+", "%2b"))  # a token's plus stays one
    tokens = [text for name, text in kept if name == "access_token" and text]
    assert tokens == [text_of(result)]
    both = pairs_of(fragment) + pairs_of(query)
    assert both.count(OURS) == 1
    assert all(name != "error" or not text for name, text in both)
    assert [text for name, text in both if name == "token_type" and text] == ["Bearer"]
    assert result.expires_at in (None, NOW + 60)


@settings(deadline=None)
@given(addresses, responses())
def test_only_our_address_brings_a_token(address: str, parts: tuple[str, str]) -> None:
    result: Token | LoginError
    try:
        result = FLOW.finish_url(attempt(), f"{address}#{parts[0]}", now=NOW)
    except LoginError as error:
        result = error
    require_silence(result, [])
    if isinstance(result, Token):
        place = "".join(address.split()).partition("#")[0].partition("?")[0].lower()
        assert place in (CALLBACK, CALLBACK.replace("/callback", "/./callback"))
