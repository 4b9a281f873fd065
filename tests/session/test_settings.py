"""Settings of sessions and views; a wrong one is named when the session is made."""

import os
import pickle
import ssl
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import certifi
import httpx
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import SecretStr

from gateway_sdk import (
    ConfigurationError,
    GatewaySession,
    GatewayTransport,
    Observer,
    RateLimit,
    RetryBudget,
    RetryPolicy,
)
from gateway_sdk._transport.settings import CONNECTION
from gateway_sdk.session import DECLARED, ENVIRONMENT, EnvironmentSettings
from tests.support.secrecy import CANARY, texts_of


def session(base_url: Any = "https://gateway.test", **settings: Any) -> GatewaySession:
    return GatewaySession(base_url, **{"access_token": CANARY, **settings})


def from_env(**settings: Any) -> GatewaySession:
    return GatewaySession.from_env(**{"base_url": "https://g.test", **settings})


MISSING, NO_TEXT = "is missing", "must be a str"
USER, QUERY, FRAGMENT = "user name or password", "carries a query", "has a fragment"
BRACES = SPACE = "a space, a newline or a brace"
NO_SCHEME, NO_URL = "must start with https://", "not a URL"
BASE_URLS: list[tuple[Any, str]] = [
    ("", MISSING),
    (None, MISSING),
    (5, NO_TEXT),
    (b"https://gateway.test", NO_TEXT),
    (httpx.URL("https://g.test"), NO_TEXT),
    (f"https://{CANARY}:{CANARY}@gateway.test", USER),
    (f"https://{CANARY}@gateway.test", USER),
    (f"https://@gateway.test/{CANARY}", USER),
    (f"https://gateway.test?key={CANARY}", QUERY),
    ("https://gateway.test?", QUERY),
    ("https://gateway.test#", FRAGMENT),
    (f"https://{{host}}/{CANARY}", BRACES),
    ("https://gateway.test/area}", BRACES),
    (f"https://gateway.test/{CANARY}\n", SPACE),
    ("https://gateway.test/\N{LINE SEPARATOR}", SPACE),
    ("gateway.test", NO_SCHEME),
    ("//gateway.test", NO_SCHEME),
    ("https:///path", NO_SCHEME),
    ("ftp://gateway.test", NO_SCHEME),
    ("https://gateway.test:port", NO_URL),
    ("https://gateway.test:99999", NO_URL),
    ("https://gateway.test:0", NO_URL),
    ("https://[::1", NO_URL),
    ("https://gateway\x00.test", NO_URL),
    ("https://" + "a" * 70_000, NO_URL),
    ("https://\ud800", NO_URL),
    ("https://gateway.test/\ud800", NO_URL),
    ("https://xn--a", NO_URL),  # broken punycode
    ("https://a\\b.test", NO_URL),
    ("http://localhost%2eevil.com", NO_URL),
    ("http://[fe80::1%25eth0]", NO_URL),
    # They look like this machine.
    ("http://localho\u017ft", NO_URL),
    ("http://\uff11\uff12\uff17.0.0.1", NO_URL),
    ("http://0177.0.0.1", NO_URL),
]


@pytest.mark.parametrize(("base_url", "message"), BASE_URLS, ids=lambda value: repr(value)[:40])
@pytest.mark.parametrize("insecure", [False, True])
def test_base_url_that_is_none(base_url: Any, message: str, insecure: bool) -> None:
    with pytest.raises(ConfigurationError, match=r"^base_url ") as caught:
        session(base_url, allow_insecure_http=insecure)

    assert message in str(caught.value)
    assert CANARY not in texts_of(caught.value)


@pytest.mark.parametrize(
    ("base_url", "is_here"),
    [
        ("http://127.0.0.1:8080/base", True),
        ("http://127.8.9.10", True),
        ("http://localhost:8080", True),
        ("http://[::1]", True),
        ("HTTP://LOCALHOST", True),
        ("http://gateway.test", False),
        ("HTTP://GATEWAY.TEST", False),
        ("http://localhost.evil.com", False),
        ("http://127.0.0.1.evil.com", False),
        ("http://2130706433", False),
        ("http://127.1", False),
        ("http://0.0.0.0", False),
        ("http://localhost.", True),
        ("http://[::]", False),
        ("http://[::ffff:10.0.0.1]", False),
    ],
)
def test_plain_http_goes_to_this_machine_only(base_url: str, is_here: bool) -> None:
    if is_here:
        assert session(base_url)._caller.shared.base_url.scheme == "http"
    else:
        with pytest.raises(ConfigurationError, match=r"plain http .* allow_insecure_http=True"):
            session(base_url)
    assert session(base_url, allow_insecure_http=True)._caller.shared.base_url.scheme == "http"


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=40))
def test_any_text_as_base_url_is_taken_or_refused_as_ours(text: str) -> None:
    for scheme in ("https://", "http://", ""):
        try:
            made = session(scheme + text)
        except ConfigurationError as error:
            assert error.operation is None  # noqa: PT017 - either may happen
        else:
            url = made._caller.shared.base_url
            assert url.scheme == "https" or url.host in ("localhost", "127.0.0.1", "::1")


NOT_FINITE: list[Any] = [-1, 1e9, True, "5", [], float("nan"), float("inf"), 10**400]
NOT_SECONDS = [0, *NOT_FINITE]
NOT_COUNTS: list[Any] = [0, -1, True, "5", 1.0, None]
NOT_SWITCHES: list[Any] = ["false", 1, 0, None]
SETTINGS: dict[str, list[Any]] = {
    "access_token": [
        SimpleNamespace(token={"access_token": "x"}),
        None,
        "",
        5,
        b"token",
        {},
        dict,
        "two words",
        "line\n",
        "ünicode",
    ],
    "tenant_id": ["", " acme", "acme\n", "a\r\nb", "a\x00b", "\u20ac", "\ud800", 5, b"acme"],
    "token_header": ["", "tok\n", "a\r\nb", 5, SecretStr(""), SecretStr("a\nb")],
    "timeout": [
        *NOT_SECONDS,
        httpx.Timeout("5"),  # type: ignore[arg-type]
        httpx.Timeout(-1),
        httpx.Timeout(5, pool=True),
    ],
    "deadline": NOT_SECONDS,
    "drain": [None, *NOT_FINITE],
    "retry": [5, True, {}, RetryPolicy],
    "headers": [[("X", "1")], "X: 1", 5, {"X": 1}, {"X": b"1"}, {"X": ""}, {"X": "a\nb"}],
    "transport": [5, httpx.AsyncHTTPTransport, httpx.HTTPTransport()],
    "http_client": [5, httpx.Client(), httpx.AsyncClient],
    "max_connections": NOT_COUNTS,
    "max_reply_bytes": NOT_COUNTS,
    "verify": [False, None, 1, b"ca.pem", []],
    "cert": [
        *((), 5, True, b"a.pem", ["a.pem", "a.key"], {"cert": "a.pem"}),
        *(("a.pem", None), (None, "a.key"), ("a.pem", "a.key", b"password"), ("a", "b", "c", "d")),
    ],
    "proxy": [b"http://proxy", 8080, httpx.URL("http://p"), ["http://p"]],
    "trust_env": NOT_SWITCHES,
    "rate_limit": [5, 1.0, (5, 1.0), "5/s", RateLimit],
    "parse_float": [5, "Decimal", []],
    "allow_insecure_http": NOT_SWITCHES,
    "sleep": [5, time.sleep, lambda _: None],
    "observers": [None, 5, Observer(), [Observer], [Observer(), None], "text"],
    "retry_budget": [0, 0.1, True, "20", RetryBudget, {"reserve": 20}],
}
OF_A_POLICY: dict[str, list[Any]] = {
    "attempts": [0, 1.5, *NOT_FINITE[:-1], None],
    **{name: [None, *NOT_FINITE] for name in ("backoff", "backoff_max", "retry_after_max")},
    "connect_wait": [None, *NOT_FINITE],
    "jitter": [1.1, None, *NOT_FINITE],
    "statuses": [[399], [600], [True], [429.0], ["429"], "429", 429, None, iter([429])],
    "repeat_idempotent": NOT_SWITCHES,
}
OF_A_RATE: dict[str, list[Any]] = {
    "requests": [*NOT_COUNTS, 1.5, float("nan")],
    "seconds": [None, *NOT_SECONDS],
}
OF_A_BUDGET: dict[str, list[Any]] = {
    "reserve": [0, -1, 1.5, True, None, "20", float("inf")],
    **{name: [-0.1, None, True, "1", *NOT_FINITE[-3:]] for name in ("share", "per_second")},
}


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        pytest.param(make, name, value, id=f"{name}={repr(value).partition(' at 0x')[0][:30]}")
        for make, table in (
            (session, SETTINGS),
            (RetryPolicy, OF_A_POLICY),
            (RetryBudget, OF_A_BUDGET),
            (partial(RateLimit, requests=1), OF_A_RATE),
        )
        for name, values in table.items()
        for value in values
    ],
)
def test_setting_of_a_wrong_value(make: Callable[..., Any], name: str, value: Any) -> None:
    """Also one that would only fail in a call, or mean its opposite, as the text "no" would."""
    with pytest.raises(ConfigurationError, match=rf"\b{name}\b"):
        make(**{name: value})


@pytest.mark.parametrize("name", DECLARED)
def test_a_wrong_setting_is_named_by_the_error(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        session(**{name: object()})

    error = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - made here
    assert error.setting == name
    assert str(error).startswith(f"{name} {error.problem}")  # a hint for Python may follow


async def test_ca_file_that_is_none() -> None:
    for verify in ("/nonexistent/ca.pem", Path(__file__), "\x00", ""):
        made = session(verify=verify)
        with pytest.raises(ConfigurationError, match="verify names no readable CA file"):
            await made.__aenter__()


@pytest.mark.parametrize("own", [{}, {"SSL_CERT_FILE": certifi.where()}])
async def test_a_log_of_keys_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, own: dict[str, str]
) -> None:
    """Left over in an environment; Python opens it, whatever the authorities are."""
    for name, value in {**own, "SSLKEYLOGFILE": "/nonexistent/keys"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=r"^SSLKEYLOGFILE names a file"):
        await session().__aenter__()


BY_ITSELF = "must not set"
OURS = {
    "Authorization": "give access_token= instead",
    "token": "give token_header= instead",
    "tenantId": "give tenant_id= instead",
    "Host": "it follows from base_url",
    "Content-Length": "it follows from the body",
    "Transfer-Encoding": "it follows from the body",
    "Content-Type": "give content_type= with the call instead",
    **dict.fromkeys(("Accept-Encoding", "Connection", "Expect", "Keep-Alive"), BY_ITSELF),
    **dict.fromkeys(("Proxy-Authorization", "TE", "Trailer", "Upgrade"), BY_ITSELF),
}


@pytest.mark.parametrize(("name", "message"), OURS.items())
@pytest.mark.parametrize("case", [str, str.lower, str.upper, str.swapcase, str.title])
def test_header_that_is_ours(name: str, message: str, case: Callable[[str], str]) -> None:
    for value in (CANARY, None):
        with pytest.raises(ConfigurationError, match=message) as caught:
            session().with_options(headers={case(name): value})
        assert f"must not set {case(name)}: " in str(caught.value)
        assert CANARY not in str(caught.value)
    with pytest.raises(ConfigurationError, match=message):
        session(headers={case(name): CANARY})


@pytest.mark.parametrize(
    "name", ["", "X Y", "X:", "X\n", "\r\nX", "é", "X\x00", "\ud800", 1, None, b"X"]
)
def test_header_name_that_no_header_can_have(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="headers holds a name that no header can have"):
        session(headers={name: "x"})


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in list(os.environ):
        if name.startswith("GATEWAY_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GATEWAY_BASE_URL", "https://gateway.test/api")
    monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", CANARY)
    return monkeypatch


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GATEWAY_BASE_URL", "", "GATEWAY_BASE_URL is not set"),
        ("GATEWAY_ACCESS_TOKEN", "", "GATEWAY_ACCESS_TOKEN is not set"),
        # What the environment holds is checked like an argument.
        ("GATEWAY_BASE_URL", "gateway.test", "base_url must start"),
        ("GATEWAY_ACCESS_TOKEN", f"{CANARY}\n", "access_token has white space"),
        ("GATEWAY_TENANT_ID", f"{CANARY}\n", "tenant_id has white space"),
        ("GATEWAY_TOKEN_HEADER", f" {CANARY}", "token_header has white space"),
    ],
)
def test_variable_that_is_missing_or_wrong_is_named(
    environment: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    environment.setenv(name, value)
    with pytest.raises(ConfigurationError, match=message) as caught:
        GatewaySession.from_env()
    if not value:
        environment.delenv(name)
        with pytest.raises(ConfigurationError, match=message):
            GatewaySession.from_env()

    assert CANARY not in texts_of(caught.value)


@pytest.mark.usefixtures("environment")
def test_none_in_place_of_a_variable_is_named() -> None:
    with pytest.raises(ConfigurationError, match="base_url must not be None"):
        GatewaySession.from_env(base_url=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["access_token", "token_header", "tenant_id"])
@pytest.mark.parametrize("base_url", ["https://other.test", "https://gateway.test:8443"])
def test_secret_of_the_environment_goes_to_no_other_gateway(
    environment: pytest.MonkeyPatch, name: str, base_url: str
) -> None:
    environment.setenv("GATEWAY_TOKEN_HEADER", CANARY)
    environment.setenv("GATEWAY_TENANT_ID", CANARY)
    complete: EnvironmentSettings = {
        "base_url": base_url,
        "access_token": "other",
        "token_header": None,
        "tenant_id": None,
    }
    lacking: Any = {key: value for key, value in complete.items() if key != name}

    with pytest.raises(ConfigurationError, match=f": give {name}= too") as caught:
        GatewaySession.from_env(**lacking)

    assert CANARY not in str(caught.value)
    GatewaySession.from_env(**complete)
    GatewaySession.from_env(base_url="https://gateway.test:443/other-path")
    with pytest.raises(ConfigurationError, match="base_url must start with https://"):
        GatewaySession.from_env(base_url="other.test")


def test_argument_stands_in_for_a_variable(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("GATEWAY_BASE_URL")
    environment.setenv("GATEWAY_TENANT_ID", "from-env")

    made = GatewaySession.from_env(base_url="https://other.test", tenant_id=None)

    assert made._caller.shared.base_url == "https://other.test"
    assert made._caller.options.tenant_id is None


def test_transport_and_client_exclude_each_other() -> None:
    with pytest.raises(ConfigurationError, match=r"transport= or http_client=, not both"):
        session(**seams())


OF_AN_ENGINE: dict[str, list[Any]] = {
    "max_connections": [50, 1],
    "verify": [True, "ca.pem", ssl.create_default_context()],
    "cert": ["client.pem"],
    "proxy": ["http://proxy.test:3128"],
    "trust_env": [True, False],
}


def seams() -> dict[str, Any]:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={}))
    return {"transport": transport, "http_client": httpx.AsyncClient(transport=transport)}


@pytest.mark.parametrize("seam", ["transport", "http_client"])
@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in CONNECTION for value in OF_AN_ENGINE[name]]
)
def test_what_has_no_effect_beside_a_transport_is_refused(
    seam: str, name: str, value: object
) -> None:
    given = {seam: seams()[seam], name: value}

    with pytest.raises(ConfigurationError, match=rf"^leave out {name}: .* effect beside {seam}="):
        session(**given)
    with pytest.raises(ConfigurationError, match=r"^leave out .*verify, .*proxy, trust_env: "):
        session(**{**given, "verify": "ca.pem", "proxy": "http://p.test", "trust_env": False})


@pytest.mark.parametrize("seam", ["transport", "http_client"])
def test_what_has_an_effect_beside_a_transport_is_taken(seam: str) -> None:
    given = {seam: seams()[seam], "proxy": None, "cert": None, "rate_limit": RateLimit(5)}

    assert "new" in repr(session(**given))


def test_a_setting_has_a_type_a_default_and_a_check() -> None:
    login = {"auth_url", "client_id", "token_store"}

    assert EnvironmentSettings.__optional_keys__ == {*DECLARED, "base_url", *login}
    assert ENVIRONMENT.keys() <= EnvironmentSettings.__optional_keys__


@pytest.mark.parametrize(
    ("call", "name", "hint"),
    [
        (session, "colour", ""),
        (session, "connections", ": did you mean max_connections?"),
        (session, "max_concurrency", ": did you mean max_connections?"),
        (session, "max_retries", ": did you mean retry?"),
        (GatewayTransport, "colour", ""),
        (session().with_options, "colour", ""),
        (session().with_options, "base_url", ": the session has it, for all its views"),
        (session().with_options, "max_connections", ": the session has it, for all its views"),
        (from_env, "tenant", ": did you mean tenant_id?"),
        (from_env, "tenantid", ": did you mean tenant_id?"),
        (from_env, "token", ": did you mean access_token or token_header or token_store?"),
        (from_env, "time_out", ": did you mean timeout?"),
    ],
)
def test_a_name_that_is_no_argument_is_refused_with_the_one_that_is_meant(
    call: Callable[..., object], name: str, hint: str
) -> None:
    """A misspelt tenant would else go unnoticed until a call."""
    with pytest.raises(ConfigurationError) as caught:
        call(**{name: "acme"})

    where = "GatewaySession" if call is session else call.__name__
    assert str(caught.value) == f"{where} has no argument {name!r}{hint}"


def test_a_subclass_may_have_arguments_of_its_own_and_views() -> None:
    class TeamSession(GatewaySession):
        def __init__(self, base_url: str, *, team: str, **options: Any) -> None:
            super().__init__(base_url, **options)
            self.team = team

    given: Any = {"base_url": "https://g.test", "access_token": "t", "team": "orders"}

    view = TeamSession.from_env(**given).with_options(tenant_id="acme")

    assert type(view) is TeamSession
    assert view.team == "orders"
