"""Any text from a browser gives a token that was issued to us, or a LoginError without its text."""

from dataclasses import replace
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from hypothesis import given, settings, strategies as st
from pydantic import SecretStr

from gateway_sdk.auth import LoginAttempt, Token
from gateway_sdk.auth.token import text_of
from gateway_sdk.errors import ConfigurationError, LoginError, StateMismatchError
from tests.auth.responses import CALLBACK, FLOW, NOW, SCOPE, granted, log_book, told
from tests.support.secrecy import CANARY

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
    encode = st.sampled_from([str, _as_in_a_form, _percent_encoded])
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
    tokens = [text for name, text in pairs_of(fragment) if name == "access_token" and text]
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


@settings(deadline=None)
@given(
    st.from_regex(r"[A-Za-z0-9\-._~+/]+=*", fullmatch=True),
    st.none() | st.integers(1, 9_999_999_999),
    st.none() | st.sets(st.from_regex(r"[\x21\x23-\x5b\x5d-\x7e]+", fullmatch=True), max_size=3),
    st.booleans(),
)
def test_every_token_that_may_be_granted_comes_through(
    value: str, life: int | None, scope: set[str] | None, raw: bool
) -> None:
    """Value, lifetime and scope arrive as the server meant them, with a plus raw or encoded."""
    said: dict[str, object] = {"state": STATE, "token_type": "Bearer"}
    said |= {} if life is None else {"expires_in": life}
    said |= {} if scope is None else {"scope": " ".join(scope)}
    token_part = f"access_token={value}" if raw else urlencode({"access_token": value})
    token = FLOW.finish(attempt(), fragment=f"{urlencode(said)}&{token_part}", now=NOW)
    assert token == granted(value, life=life, scope=SCOPE if scope is None else frozenset(scope))


@given(anything, anything, st.booleans())
def test_every_token_is_valid_in_a_header(before: str, after: str, wrapped: bool) -> None:
    """Any text gives a token of one ASCII line, or an error that does not show the text."""
    text = before + CANARY + after
    try:
        token = Token(SecretStr(text) if wrapped else text)
    except ConfigurationError as error:
        shown = told(error)
    else:
        shown = repr(token)
        assert text_of(token) == text
        assert text.isascii()
        assert text.isprintable()
        assert " " not in text
    assert CANARY not in shown
