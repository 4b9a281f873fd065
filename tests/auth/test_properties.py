"""Any text from a browser gives a token that was issued to us, or a LoginError without its text."""

from dataclasses import replace
from urllib.parse import parse_qsl, quote_plus, urlencode, urlsplit

from hypothesis import given, settings, strategies as st
from pydantic import SecretStr

from gateway_sdk.auth import LoginAttempt, Token
from gateway_sdk.errors import ConfigurationError, LoginError, StateMismatchError
from tests.auth.responses import CALLBACK, CANARY, FLOW, NOW, SCOPE, clear, granted, log_book, told

STATE = "s3cret-STATE_0123456789abcdefghijklmnopqrst"
GRANT = [("access_token", CANARY), ("token_type", "Bearer"), ("expires_in", "60")]
OURS = ("state", STATE)
NAMES = [
    "access_token",
    "code",
    "error",
    "error_description",
    "error_uri",
    "expires_at",
    "expires_in",
    "iss",
    "refresh_token",
    "scope",
    "state",
    "token_type",
]
VALUES = [CANARY, "Bearer", "mac", "60", "0", "-1", "read write", "access_denied", ""]

# Lone surrogates too: JSON, file names and terminals can contain them.
anything = st.text(
    st.characters(exclude_categories=())
    | st.characters(categories=["Cs"])
    | st.sampled_from("&=#?%+;/:@ \t\r\n\x00\x1b"),
    max_size=12,
)
addresses = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["http://", "http://", "https://", "HTTP://", "//", "", "http:"]) | anything,
    st.sampled_from(["127.0.0.1", "127.0.0.1", "[::1]", "[", "xn--0", "u:p@127.0.0.1"]) | anything,
    st.sampled_from([":53412", ":53412", ":0", ":x", ":99999999", ":\u0661", ""]) | anything,
    st.sampled_from(["/callback", "/callback", "/%63allback", "/./callback", ""]) | anything,
)

near = st.sampled_from(
    [CALLBACK, f" {CALLBACK}", f"{CALLBACK}?x", f"{CALLBACK}/", f"{CALLBACK};x", f"x{CALLBACK}"]
)


@st.composite
def encoded(draw: st.DrawFn, text: str) -> str:
    """Draw one of the ways in which a text may be percent-encoded, valid or not."""
    ways = (text, form_encoded(text), percent_encoded(text), mixed_encoded(text))
    return draw(st.sampled_from(ways))


def form_encoded(text: str) -> str:
    return quote_plus(text, errors="surrogatepass")


def percent_encoded(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))


def mixed_encoded(text: str) -> str:
    return "".join(
        percent_encoded(character) if place % 2 else character
        for place, character in enumerate(text)
    )


@st.composite
def answers(draw: st.DrawFn, core: list[tuple[str, str]]) -> str:
    """Draw a response of most of the usual parameters, in any order, and of a few more."""
    more = st.tuples(st.sampled_from(NAMES) | anything, st.sampled_from(VALUES) | anything)
    pairs = [pair for pair in core if draw(st.integers(0, 9))]
    pairs += draw(st.lists(more, max_size=2))
    pieces = [
        draw(encoded(name)) + draw(st.sampled_from(["="] * 19 + [""])) + draw(encoded(value))
        for name, value in draw(st.permutations(pairs))
    ]
    separator = draw(st.sampled_from(["&"] * 16 + ["&&", ";", "#", "&amp;"]))
    return separator.join([*pieces, *draw(st.lists(anything, max_size=1))])


anywhere = (
    st.tuples(answers([*GRANT, OURS]), st.just("") | answers([]))
    | st.tuples(answers(GRANT), answers([OURS]))
    | st.tuples(answers([]), answers([*GRANT, OURS]))
)


def attempt() -> LoginAttempt:
    """Return an open attempt with a known state."""
    return LoginAttempt(f"https://as.test/?state={STATE}", CALLBACK, STATE)


def read(fragment: str, query: str, *, pasted: bool) -> tuple[LoginAttempt, Token | LoginError]:
    """Finish an open attempt with a response."""
    ours = attempt()
    try:
        if pasted:
            return ours, FLOW.finish_url(ours, f"{CALLBACK}?{query}#{fragment}", now=NOW)
        return ours, FLOW.finish(ours, fragment=fragment, query=query, now=NOW)
    except LoginError as error:
        return ours, error


def require_silence(result: Token | LoginError, lines: list[str]) -> None:
    """Require that neither token nor state is in anything that can be printed.

    But for the scope, which is no secret, and in which a server may put any word.
    """
    if isinstance(result, Token):
        result = replace(result, scope=frozenset())
    shown = told(result) if isinstance(result, LoginError) else f"{result} {result!r}"
    for text in (shown, *lines):
        assert CANARY not in text
        assert STATE not in text


@settings(deadline=None)
@given(anything | answers(GRANT), anything | answers(GRANT), st.booleans())
def test_no_response_without_the_state_is_accepted(fragment: str, query: str, pasted: bool) -> None:
    """Every response without the state is refused, and the attempt stays open."""
    with log_book() as lines:
        ours, result = read(fragment, query, pasted=pasted)

    assert isinstance(result, StateMismatchError)
    assert ours.is_open
    require_silence(result, lines)


@settings(deadline=None, max_examples=3 * settings().max_examples)
@given(anywhere, st.booleans())
def test_an_answer_with_our_state_is_a_token_or_a_login_error(
    parts: tuple[str, str], pasted: bool
) -> None:
    """A token needs one state, one token in the fragment and no error; no text leaks."""
    with log_book() as lines:
        ours, result = read(*parts, pasted=pasted)

    assert ours.is_open == isinstance(result, StateMismatchError)
    require_silence(result, lines)
    if isinstance(result, Token):
        require_reason(result, *(seen(*parts) if pasted else map(pairs_of, parts)))


def pairs_of(text: str) -> list[tuple[str, str]]:
    """Split parameters as the standard library does."""
    return parse_qsl(text, keep_blank_values=True)


def seen(fragment: str, query: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Split a pasted URL as the standard library does."""
    url = urlsplit("".join(f"{CALLBACK}?{query}#{fragment}".split()))
    return pairs_of(url.fragment), pairs_of(url.query)


def require_reason(
    token: Token, fragment: list[tuple[str, str]], query: list[tuple[str, str]]
) -> None:
    both = fragment + query
    assert both.count(OURS) == 1
    assert [text for name, text in fragment if name == "access_token" and text] == [clear(token)]
    assert all(name != "error" or not text for name, text in both)
    assert [text for name, text in both if name == "token_type" and text] == ["Bearer"]
    assert token.expires_at in (None, NOW + 60)


@settings(deadline=None)
@given(near | addresses, answers([*GRANT, OURS]))
def test_only_our_address_brings_a_token(address: str, answer: str) -> None:
    """Any pasted text gives a token or a LoginError, and only our redirect URI gives a token."""
    ours = attempt()

    try:
        result: Token | LoginError = FLOW.finish_url(ours, f"{address}#{answer}", now=NOW)
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
    said: dict[str, str] = {"state": STATE, "token_type": "Bearer"}
    if life is not None:
        said["expires_in"] = str(life)
    if scope is not None:
        said["scope"] = " ".join(scope)
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
        assert clear(token) == text
        assert text.isascii()
        assert text.isprintable()
        assert " " not in text

    assert CANARY not in shown
