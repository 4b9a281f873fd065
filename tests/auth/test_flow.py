"""How an implicit flow is set up: the accepted and the refused arguments."""

import pickle
from types import MappingProxyType
from typing import Any

import pytest

from gateway_sdk.auth import ImplicitFlow
from gateway_sdk.errors import ConfigurationError
from tests.auth.responses import AUTHORIZE, CALLBACK, CANARY, told


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (None, "must be a str"),
        (b"https://as.test/authorize", "must be a str"),
        ("", "must start with https://"),
        ("{auth_url}", "placeholder"),
        ("https://{host}/authorize", "placeholder"),
        ("https://as.test/{tenant}/authorize", "placeholder"),
        ("%7Bauth_url%7D", "must start with https://"),
        ("authorize", "must start with https://"),
        ("/authorize", "must start with https://"),
        ("//as.test/authorize", "must start with https://"),
        ("as.test/authorize", "must start with https://"),
        ("https:as.test/authorize", "must start with https://"),
        ("https:///authorize", "must start with https://"),
        ("ftp://as.test/authorize", "must start with https://"),
        ("file:///authorize", "must start with https://"),
        ("javascript:alert(1)", "must start with https://"),
        ("https://as.test:99999/", "its port cannot be|not a URL"),
        ("https://as.test:port/", "not a URL"),
        ("https://[::1/", "not a URL"),
        ("https://xn--0/", "not a URL"),
        ("https://as.test/\x00", "not a URL"),
        ("https://as.test/\ud800", "not a URL"),
        ("http://as.test/authorize", "plain http to as.test"),
        ("HTTP://AS.test/authorize", "plain http to as.test"),
        ("http://127.0.0.1.evil.test/", "plain http"),
        ("http://localhost.evil.test/", "plain http"),
        ("http://0.0.0.0/", "plain http"),
        ("http://192.168.0.1/", "plain http"),
        ("http://[2001:db8::1]/", "plain http"),
        ("https://as.test/authorize#", "fragment"),
        ("https://as.test/authorize#/login", "fragment"),
        ("https://user@as.test/", "user name or password"),
        (f"https://user:{CANARY}@as.test/", "user name or password"),
        ("https://@as.test/", "user name or password"),
        ("https://as.test\\@evil.test/", "user name or password|not a URL"),
        (" https://as.test/", "space or a newline"),
        ("https://as.test/a b", "space or a newline"),
        ("https://as.test/\n", "space or a newline"),
        ("https://as.test/?response_type=token", "must not set response_type"),
        ("https://as.test/?client_id=x", "must not set client_id"),
        ("https://as.test/?redirect_uri=x", "must not set redirect_uri"),
        ("https://as.test/?scope=", "must not set scope"),
        ("https://as.test/?state", "must not set state"),
        ("https://as.test/?a=1&%73tate=x", "must not set state"),
        ("https://as.test/?state=x&client_id=x", "must not set client_id, state"),
        ("https://as.test/?a=1&a=2", "present twice"),
        ("https://as.test/?a=1&%61=1", "present twice"),
    ],
)
def test_an_invalid_authorization_url_is_refused(url: Any, problem: str) -> None:
    """The message says what is wrong with the authorization URL, and shows no password."""
    with pytest.raises(ConfigurationError, match=f"authorization_url.*({problem})|{problem}") as at:
        ImplicitFlow(url, "client-1")

    assert "authorization_url" in str(at.value)
    assert CANARY not in told(at.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://as.test",
        "https://as.test/",
        "https://as.test:8443/a/b;v=1",
        "https://as.test/authorize?",
        "https://as.test/authorize?tenant=a%20b&prompt=login",
        "https://as.test/authorize?State=x&SCOPE=y",
        "http://127.0.0.1:8080/authorize",
        "http://127.0.0.2/authorize",
        "http://[::1]:8080/authorize",
        "http://localhost/authorize",
        "HTTP://LOCALHOST/authorize",
    ],
)
def test_a_valid_authorization_url_is_accepted(url: str) -> None:
    """A URL with https, or with http on this machine; it may have a path and a query."""
    flow = ImplicitFlow(url, "client-1")

    assert flow.authorization_url == url
    assert flow.start(CALLBACK).url.lower().startswith(url.partition("?")[0].lower())


@pytest.mark.parametrize(
    "client_id",
    ["", None, 7, b"client", ["client"], "cli\xe4nt", "client\n", "\t", "a\x7f", "\ud800"],
)
def test_an_invalid_client_id_is_refused(client_id: Any) -> None:
    """A client id is printable ASCII (RFC 6749, A.1) and not empty."""
    with pytest.raises(ConfigurationError, match=r"^client_id "):
        ImplicitFlow(AUTHORIZE, client_id)


@pytest.mark.parametrize("client_id", ["client-1", "a b", "a&b=c#d?e/~", "%7Bid%7D", "x" * 4096])
def test_a_client_id_is_kept(client_id: str) -> None:
    """An unusual but valid client id is accepted unchanged."""
    assert ImplicitFlow(AUTHORIZE, client_id).client_id == client_id


@pytest.mark.parametrize("issuer", [7, b"https://as.test", ["https://as.test"], True])
def test_an_issuer_of_another_type_is_refused(issuer: Any) -> None:
    """An issuer of another type could never be equal."""
    with pytest.raises(ConfigurationError, match=r"^issuer "):
        ImplicitFlow(AUTHORIZE, "client-1", issuer=issuer)


@pytest.mark.parametrize(
    "scope", [None, 7, b"read", ["a b"], [7], [["a"]], 'say"so', "a\nb", "\xe4"], ids=repr
)
def test_an_invalid_scope_is_refused(scope: Any) -> None:
    """A scope is checked when the flow is made, not by the server."""
    with pytest.raises(ConfigurationError, match=r"^scope "):
        ImplicitFlow(AUTHORIZE, "client-1", scope=scope)


@pytest.mark.parametrize(
    ("extra", "problem"),
    [
        (None, "mapping of strings"),
        ([], "mapping of strings"),
        ([("prompt", "login")], "mapping of strings"),
        ("prompt=login", "mapping of strings"),
        ({"prompt": 7}, "mapping of strings"),
        ({"prompt": None}, "mapping of strings"),
        ({7: "prompt"}, "mapping of strings"),
        ({"response_type": "code"}, "must not set response_type"),
        ({"client_id": "x"}, "must not set client_id"),
        ({"redirect_uri": "x"}, "must not set redirect_uri"),
        ({"scope": "x"}, "must not set scope"),
        ({"state": "x"}, "must not set state"),
        ({"own": "2"}, "present twice"),
        ({"prompt": "\ud800"}, "extra"),
        ({"\udcff": "login"}, "extra"),
    ],
    ids=repr,
)
def test_an_extra_that_cannot_be_sent_is_refused(extra: Any, problem: str) -> None:
    """Extra parameters are strings, and not parameters that the flow or the URL already sets."""
    with pytest.raises(ConfigurationError, match=problem):
        ImplicitFlow(f"{AUTHORIZE}?own=1", "client-1", extra=extra)


def test_an_extra_is_copied() -> None:
    """Later changes of the caller's mapping have no effect: they were not checked."""
    extra = {"prompt": "login"}
    flow = ImplicitFlow(AUTHORIZE, "client-1", extra=MappingProxyType(extra))
    extra["state"] = "mine"

    url = flow.start(CALLBACK).url

    assert url.count("state=") == 1
    assert "prompt=login" in url


def test_a_flow_shows_client_and_host_only() -> None:
    """The repr distinguishes flows, without the query of the URL."""
    flow = ImplicitFlow(f"{AUTHORIZE}?tenant={CANARY}", "client-1", extra={"hint": CANARY})

    assert repr(flow) == "<ImplicitFlow of 'client-1' at as.test>"


def test_an_attempt_shows_neither_its_state_nor_its_url() -> None:
    """The repr says whether the attempt is open; an attempt cannot be pickled."""
    attempt = ImplicitFlow(AUTHORIZE, "client-1").start(CALLBACK)

    assert repr(attempt) == str(attempt) == "<LoginAttempt (open)>"
    attempt.is_open = False
    assert repr(attempt) == "<LoginAttempt (ended)>"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(attempt)
