"""The authorization URL of a login, its state, and the modules that a login loads."""

import json
import random
import re
import subprocess
import sys
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from gateway_sdk.auth import ImplicitFlow
from gateway_sdk.errors import ConfigurationError
from tests.auth.responses import AUTHORIZE, CALLBACK, FLOW, state_of


def parameters(url: str) -> list[tuple[str, str]]:
    """Return all parameters of a URL in order, without dropping or merging any."""
    return parse_qsl(urlsplit(url).query, keep_blank_values=True, strict_parsing=True)


@pytest.mark.parametrize(
    ("scope", "asked"),
    [
        ((), []),
        ("", []),
        ([""], []),
        ("read", [("scope", "read")]),
        (["write", "read", "write"], [("scope", "read write")]),
        ("b a", [("scope", "a b")]),
    ],
)
def test_the_address_asks_for_a_token_and_nothing_else(
    scope: Any, asked: list[tuple[str, str]]
) -> None:
    """RFC 6749, 4.2.1: each parameter once, and no scope if none is requested."""
    flow = ImplicitFlow(AUTHORIZE, "client & 1", scope=scope)

    attempt = flow.start(CALLBACK)

    assert attempt.url.startswith(f"{AUTHORIZE}?")
    assert "#" not in attempt.url
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
    """The query of the authorization URL is kept, with the same decoded values."""
    flow = ImplicitFlow(
        "http://localhost:8080/a;v=1?tenant=a%20b+c&empty=&name=%C3%A4&next=%2F%3Fx%3D1%26y",
        "client-1",
        extra={"prompt": "login consent", "hint": "a&state=x#\xe4"},
    )

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


@pytest.mark.parametrize("number", [1_000, pytest.param(10_000, marks=pytest.mark.full)])
def test_no_two_logins_have_the_same_state(number: int) -> None:
    """All states are different, and each has at least 128 bits."""
    states = {state_of(FLOW.start(CALLBACK)) for _ in range(number)}

    assert len(states) == number
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22,}", state) for state in states)
    assert len(set("".join(states))) == 64


def test_no_state_can_be_guessed_from_a_seed() -> None:
    """The state does not come from a random generator that programs can seed."""
    before = random.getstate()
    try:
        random.seed(4711)
        first = state_of(FLOW.start(CALLBACK))
        random.seed(4711)
        second = state_of(FLOW.start(CALLBACK))
    finally:
        random.setstate(before)

    assert first != second


@pytest.mark.parametrize(
    ("redirect_uri", "problem"),
    [
        (None, "must be a str"),
        ("", "must start with https://"),
        ("callback", "must start with https://"),
        ("myapp://callback", "must start with https://"),
        ("urn:ietf:wg:oauth:2.0:oob", "must start with https://"),
        ("{redirect_uri}", "placeholder"),
        ("http://127.0.0.1:0/callback", "port"),
        ("http://127.0.0.1/call back", "space"),
        ("http://u:p@127.0.0.1/callback", "user name"),
        (f"{CALLBACK}#", "fragment"),
        (f"{CALLBACK}#x", "fragment"),
        ("http://127.0.0.1:1/?state=own", "must not set state"),
        ("http://127.0.0.1:1/?scope=a&iss=b", "must not set iss, scope"),
        ("http://127.0.0.1:1/?error_uri=&error_description=", "must not set error_description, e"),
        ("http://127.0.0.1:1/?a=b&access_token=", "must not set access_token"),
    ],
)
def test_an_invalid_redirect_uri_is_refused(redirect_uri: Any, problem: str) -> None:
    """RFC 6749, 3.1.2: an absolute URL without a fragment; the message names the argument."""
    with pytest.raises(ConfigurationError, match=f"^redirect_uri .*{problem}"):
        FLOW.start(redirect_uri)


def loaded(program: str) -> set[str]:
    """Return the modules that a program loads in addition to httpx, pydantic and tenacity."""
    code = (
        "import httpx, json, pydantic, sys, tenacity; before = set(sys.modules)\n"
        f"{program}\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True
    )
    assert done.stderr == ""
    return set(json.loads(done.stdout))


def roots(modules: set[str]) -> set[str]:
    return {module.partition(".")[0] for module in modules}


@pytest.mark.parametrize(
    "program",
    [
        "import gateway_sdk",
        "import gateway_sdk.auth",
        "import gateway_sdk.auth as a; a.ImplicitFlow('https://as.test/', 'client-1')",
        "import gateway_sdk.auth as a; a.Token('x', expires_at=1).expired(0)",
    ],
)
def test_what_only_logins_need_is_not_loaded_without_one(program: str) -> None:
    """Importing the package loads no library that only logins and token stores need."""
    modules = loaded(program)

    assert "gateway_sdk" in modules
    assert not roots(modules) & {
        "authlib",
        "cryptography",
        "h11",
        "joserfc",
        "keyring",
        "platformdirs",
        "redis",
    }


def test_a_login_loads_only_pure_parts_of_authlib() -> None:
    """Of authlib, a login uses what builds a URL, and nothing that signs or sends."""
    modules = loaded(
        "from gateway_sdk.auth import ImplicitFlow\n"
        "flow = ImplicitFlow('https://as.test/', 'client-1')\n"
        f"attempt = flow.start({CALLBACK!r})\n"
        "state = attempt.url.partition('state=')[2]\n"
        "fragment = f'access_token=x&token_type=Bearer&state={state}'\n"
        "flow.finish(attempt, fragment=fragment, now=1.0)"
    )

    assert "authlib.oauth2.rfc6749.parameters" in modules
    assert "authlib.integrations" not in modules
    assert "authlib.jose" not in modules
    assert not roots(modules) & {"cryptography", "joserfc", "keyring", "redis", "requests"}
