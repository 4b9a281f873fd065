"""How an implicit flow is set up, its authorization URL and state, and what is pasted."""

import random
import re
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from gateway_sdk.auth import ImplicitFlow
from gateway_sdk.auth.token import text_of
from gateway_sdk.errors import ConfigurationError, StateMismatchError
from tests.auth.responses import AUTHORIZE, CALLBACK, FLOW, NO_STATE, NOW, state_of, told
from tests.support.secrecy import CANARY

TWICE = "has a parameter twice, or one that each login sets: client_id, "

# What every URL must be is tested with base_url: here are a few rows.
BAD_URLS: list[tuple[Any, str]] = [
    (None, "must be a str"),
    ("{auth_url}", "holds a space, a newline or a brace"),
    (f"https://user:{CANARY}@as.test/", "carries a user name or password"),
    ("https://as.test/authorize#", "has a fragment"),
    ("https://as.test/authorize#/login", "has a fragment"),
]
BAD_AUTHORIZATION_URLS: list[tuple[Any, str]] = [
    *BAD_URLS,
    ("http://as.test/authorize", "is plain http to as.test"),
    ("https://as.test/?response_type=token", TWICE),
    ("https://as.test/?a=1&%73tate=x", TWICE),
    ("https://as.test/?a=1&%61=1", TWICE),
]
BAD_REDIRECT_URIS: list[tuple[Any, str]] = [
    *BAD_URLS,
    ("http://127.0.0.1:0/callback", "is not a URL: its host or its port"),
]
BAD_IDS: list[Any] = ["", None, 7, b"id", ["id"], "cli\xe4nt", "client\n", "\t", "a\x7f", "\ud800"]
BAD_EXTRAS: list[Any] = [
    *(None, [], [("a", "b")], "a=b", {"a": 7}, {"a": None}, {7: "a"}),
]
BAD_SETTINGS: list[tuple[str, Any, str]] = [
    *(("authorization_url", url, problem) for url, problem in BAD_AUTHORIZATION_URLS),
    *(("client_id", name, "must be a string of printable") for name in BAD_IDS),
    *(("extra", wrong, "must be a mapping of strings to strings") for wrong in BAD_EXTRAS),
    *(("issuer", issuer, "must be") for issuer in (7, b"https://as.test", True)),
    *(("scope", scope, "") for scope in (None, ["a b"], 'say"so')),
]


@pytest.mark.parametrize(("setting", "value", "problem"), BAD_SETTINGS, ids=repr)
def test_an_invalid_setting_is_named(setting: str, value: Any, problem: str) -> None:
    given: Any = {"authorization_url": AUTHORIZE, "client_id": "client-1", setting: value}
    with pytest.raises(ConfigurationError, match=f"^{setting} {problem}") as caught:
        ImplicitFlow(**given)
    assert CANARY not in told(caught.value)


@pytest.mark.parametrize("name", ["own", "state", "scope", "response_type"])
def test_an_extra_that_is_sent_already_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^authorization_url {TWICE}"):
        ImplicitFlow(f"{AUTHORIZE}?own=1", "client-1", extra={name: "2"})


@pytest.mark.parametrize(("redirect_uri", "problem"), BAD_REDIRECT_URIS)
def test_an_invalid_redirect_uri_is_named(redirect_uri: Any, problem: str) -> None:
    """RFC 6749, 3.1.2."""
    with pytest.raises(ConfigurationError, match=f"^redirect_uri {problem}"):
        FLOW.start(redirect_uri)


def parameters(url: str) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(url).query, keep_blank_values=True, strict_parsing=True)


@pytest.mark.parametrize(
    ("scope", "asked"),
    [
        ((), []),
        ([""], []),
        ("read", [("scope", "read")]),
        (["write", "read", "write"], [("scope", "read write")]),
    ],
)
def test_the_address_asks_for_a_token_and_nothing_else(
    scope: Any, asked: list[tuple[str, str]]
) -> None:
    """RFC 6749, 4.2.1: each parameter once, and no scope if none is requested."""
    attempt = ImplicitFlow(AUTHORIZE, "client & 1", scope=scope).start(CALLBACK)
    assert attempt.url.startswith(f"{AUTHORIZE}?")
    assert parameters(attempt.url) == [
        ("response_type", "token"),
        ("client_id", "client & 1"),
        ("redirect_uri", CALLBACK),
        *asked,
        ("state", state_of(attempt)),
    ]
    assert attempt.redirect_uri == CALLBACK
    assert attempt.is_open


def test_the_address_keeps_its_own_query_and_gets_the_extra() -> None:
    """As they were when they were checked: later changes of the mapping have no effect."""
    extra = {"prompt": "login consent", "hint": "a&state=x#\xe4"}
    flow = ImplicitFlow(
        "http://localhost:8080/a;v=1?tenant=a%20b+c&empty=&name=%C3%A4&next=%2F%3Fx%3D1%26y",
        "client-1",
        extra=MappingProxyType(extra),
    )
    extra["state"] = "mine"
    attempt = flow.start("https://app.test/cb?own=1&x")
    assert attempt.url.startswith("http://localhost:8080/a;v=1?")
    assert attempt.url.isascii()
    assert parameters(attempt.url) == [
        ("tenant", "a b c"),
        ("empty", ""),
        ("name", "\xe4"),
        ("next", "/?x=1&y"),
        ("prompt", "login consent"),
        ("hint", "a&state=x#\xe4"),
        ("response_type", "token"),
        ("client_id", "client-1"),
        ("redirect_uri", "https://app.test/cb?own=1&x"),
        ("state", state_of(attempt)),
    ]


def test_no_two_logins_have_the_same_state() -> None:
    """Each has at least 128 bits, of a generator that programs cannot seed."""
    before = random.getstate()
    states = []
    for _ in range(1000):
        random.seed(4711)
        states.append(state_of(FLOW.start(CALLBACK)))
    random.setstate(before)
    assert len(set(states)) == 1000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22,}", state) for state in states)
    assert len(set("".join(states))) == 64


def test_flows_and_attempts_show_no_secret() -> None:
    """A flow shows client and host, without the query; an attempt whether it is open."""
    flow = ImplicitFlow(f"{AUTHORIZE}?tenant={CANARY}", "client-1", extra={"hint": CANARY})
    attempt = flow.start(CALLBACK)
    assert repr(flow) == "<ImplicitFlow of 'client-1' at as.test>"
    assert repr(attempt) == str(attempt) == "<LoginAttempt (open)>"
    attempt.is_open = False
    assert repr(attempt) == "<LoginAttempt (ended)>"


@pytest.mark.parametrize(
    ("pasted", "differs"),
    [
        ("http://127.0.0.1:port/callback", "it is no URL"),
        ("http://xn--0/callback", "it is no URL"),
        (f"x{CALLBACK}", "it does not begin with http:"),
        ("http://evil.test:53412/callback", "it is not of 127.0.0.1"),
        ("http://localhost:7/callback", "its port is not that of this login, 53412"),
        ("http://127.0.0.1:53412/other", "its path is not /callback"),
    ],
)
def test_the_part_that_differs_in_what_is_pasted_is_told(pasted: str, differs: str) -> None:
    with pytest.raises(StateMismatchError) as caught:
        FLOW.finish_url(FLOW.start(CALLBACK), f"{pasted}#x=1", now=0.0)
    assert str(caught.value) == f"the URL is not the redirect URI of this login: {differs}"


def test_a_response_may_be_given_as_a_page_has_it() -> None:
    """`location.hash` begins with #, and `location.search` with a question mark."""
    for fragment, query in (
        ("#{token}&{state}", ""),
        ("#{token}", "?{state}"),
        ("{token}", "{state}"),
    ):
        attempt = FLOW.start(CALLBACK)
        parts = {"token": NO_STATE, "state": f"state={state_of(attempt)}"}
        given = {"fragment": fragment.format(**parts), "query": query.format(**parts)}
        assert text_of(FLOW.finish(attempt, **given, now=NOW)) == CANARY


@pytest.mark.parametrize("pasted", [None, 7, b"http://127.0.0.1/"])
def test_what_is_pasted_is_a_string(pasted: Any) -> None:
    attempt = FLOW.start(CALLBACK)
    with pytest.raises(ConfigurationError, match=r"^the pasted address must be a string"):
        FLOW.finish_url(attempt, pasted, now=NOW)
    assert attempt.is_open
