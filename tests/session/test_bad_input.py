"""Bad input: an error of the right class that names the thing, before anything is sent."""

import asyncio
import errno
import os
import pickle
import ssl
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import SecretStr

from gateway_sdk import (
    Advice,
    AuthError,
    ConfigurationError,
    GatewayError,
    GatewaySession,
    InvalidArgumentError,
    Outcome,
    RetryPolicy,
    SessionStateError,
    UploadFailedError,
    operations,
)
from gateway_sdk._settings import EnvironmentSettings
from gateway_sdk.models import (
    CreateRequest,
    ExchangeRateSeriesRequest,
    PersonData,
    Revision,
)
from tests.support.calls import CALLS
from tests.support.raw_server import OK, raw_server, read_request

CANARY = "canary-4711"
Call = Callable[[GatewaySession], Awaitable[Any]]


class Counting(httpx.AsyncBaseTransport):
    """Counts the requests that reach it, and answers them."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(200, json=[])


@pytest.fixture
def transport() -> Counting:
    return Counting()


@pytest.fixture
def gateway(transport: Counting) -> GatewaySession:
    return GatewaySession(
        "https://gateway.test",
        access_token=CANARY + "-token",
        tenant_id=CANARY + "-tenant",
        token_header=CANARY + "-header",
        transport=transport,
        retry=None,
    )


def session(base_url: Any = "https://gateway.test", **settings: Any) -> GatewaySession:
    return GatewaySession(base_url, **{"access_token": CANARY, **settings})


def rendered(error: BaseException) -> str:
    """Return all that a log could show of an error, but for lines of source code."""
    lines = traceback.TracebackException.from_exception(error)
    shown = [str(error), repr(error)]
    at: traceback.TracebackException | None = lines
    while at is not None:
        shown += list(at.format_exception_only())
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return "\n".join(shown)


# --- where the gateway is -------------------------------------------------------------------

BASE_URLS: list[tuple[Any, str]] = [
    ("", "base_url is missing"),
    (None, "base_url is missing"),
    (f"https://{CANARY}:{CANARY}@gateway.test", "user name or password"),
    (f"https://{CANARY}@gateway.test", "user name or password"),
    (f"https://@gateway.test/{CANARY}", "user name or password"),
    (f"https://gateway.test?key={CANARY}", "a query or a fragment"),
    ("https://gateway.test?", "a query or a fragment"),
    (f"https://gateway.test/#{CANARY}", "a query or a fragment"),
    ("https://gateway.test#", "a query or a fragment"),
    (f"https://{{host}}/{CANARY}", "placeholder in braces"),
    ("{base_url}", "placeholder in braces"),
    ("https://gateway.test/{area}", "placeholder in braces"),
    (f"https://gateway.test/{CANARY}\n", "a space or a newline"),
    (" https://gateway.test", "a space or a newline"),
    ("https://gate way.test", "a space or a newline"),
    ("https://gateway.test/\N{LINE SEPARATOR}", "a space or a newline"),
    ("gateway.test", "must start with https://"),
    ("//gateway.test", "must start with https://"),
    ("https://", "must start with https://"),
    ("https:///path", "must start with https://"),
    ("ftp://gateway.test", "must start with https://"),
    ("file:///etc/passwd", "must start with https://"),
    ("javascript:alert(1)", "must start with https://"),
    ("https://gateway.test:port", "not a URL"),
    ("https://[::1", "not a URL"),
    ("https://gateway\x00.test", "not a URL"),
    ("https://gateway.test/\x7f", "not a URL"),
    ("https://" + "a" * 70_000, "not a URL"),
    ("https://\ud800", "not a URL"),
]


@pytest.mark.parametrize(("base_url", "message"), BASE_URLS, ids=lambda value: repr(value)[:40])
def test_base_url_that_is_none(base_url: Any, message: str) -> None:
    """A base URL that is missing or wrong is refused, by name and without being printed."""
    with pytest.raises(ConfigurationError, match=r"^base_url ") as caught:
        session(base_url)

    assert message in str(caught.value)
    assert CANARY not in rendered(caught.value)


@pytest.mark.parametrize(
    "base_url",
    [
        pytest.param("https://gateway.test/\ud800", id="lone surrogate in the path"),
        pytest.param("https://xn--a", id="broken punycode"),
        pytest.param("https://xn--\N{LATIN SMALL LETTER U WITH DIAERESIS}", id="mixed punycode"),
        pytest.param("https://gateway.test:99999", id="port beyond 65535"),
        pytest.param("https://gateway.test:-1", id="negative port"),
        pytest.param("http://127.0.0.1:70000", id="loopback port beyond 65535"),
        pytest.param("https://[", id="bracket for a host"),
        pytest.param("https://a\\b.test", id="backslash in the host"),
        pytest.param("http://localhost%2eevil.com", id="encoded dot in the host"),
        pytest.param("http://localhost%00.evil.com", id="encoded NUL in the host"),
        pytest.param("http://[fe80::1%25eth0]", id="zone in the host"),
    ],
)
def test_base_url_that_no_request_could_go_to(base_url: str) -> None:
    """What cannot be an address is refused when the session is made, with our error."""
    with pytest.raises(ConfigurationError, match="base_url"):
        session(base_url)


@pytest.mark.parametrize("base_url", [b"https://gateway.test", 5, httpx.URL("https://g.test")])
def test_base_url_of_another_type(base_url: Any) -> None:
    """A base URL that is no string is refused for that, and is not called missing."""
    with pytest.raises(ConfigurationError, match="base_url must be a str"):
        session(base_url)


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=40))
def test_any_text_as_base_url_is_taken_or_refused_as_ours(text: str) -> None:
    """Whatever follows the scheme, there is a session or a ConfigurationError, nothing else."""
    for scheme in ("https://", "http://", ""):
        try:
            made = session(scheme + text)
        except ConfigurationError as error:
            assert error.operation is None  # noqa: PT017 - either may happen
        else:
            url = made._caller.client.base_url
            assert url.scheme == "https" or url.host in ("localhost", "127.0.0.1", "::1")


LOOPBACK = [
    "http://127.0.0.1",
    "http://127.0.0.1:8080/base",
    "http://127.8.9.10",
    "http://localhost",
    "http://localhost:8080",
    "http://[::1]",
    "http://[::1]:8080",
    "HTTP://LOCALHOST",
    "HTTP://127.0.0.1",
]
ELSEWHERE = [
    "http://gateway.test",
    "HTTP://GATEWAY.TEST",
    "http://localhost.evil.com",
    "http://127.0.0.1.evil.com",
    "http://evil.com/127.0.0.1",
    "http://2130706433",
    "http://0x7f.1",
    "http://127.1",
    "http://0.0.0.0",
    "http://0",
    "http://localhost.",
    "http://10.0.0.1",
    "http://169.254.169.254",
    "http://[::]",
    "http://[::ffff:10.0.0.1]",
    "http://münchen.example",
]


@pytest.mark.parametrize("base_url", LOOPBACK)
def test_plain_http_to_this_machine_is_allowed(base_url: str) -> None:
    """Plain http is allowed where nothing leaves the machine."""
    assert session(base_url)._caller.client.base_url.scheme == "http"


@pytest.mark.parametrize("base_url", ELSEWHERE)
def test_plain_http_to_another_machine_is_refused(base_url: str) -> None:
    """Plain http to anything that is not surely this machine is refused, unless allowed."""
    with pytest.raises(ConfigurationError, match=r"plain http .* allow_insecure_http=True"):
        session(base_url)

    assert session(base_url, allow_insecure_http=True)._caller.client.base_url.scheme == "http"


@pytest.mark.parametrize(
    "base_url",
    [
        "http://localho\u017ft",
        "http://\u24dbocalhost",
        "http://\uff11\uff12\uff17.0.0.1",
        "http://0177.0.0.1",
    ],
)
def test_look_alikes_of_loopback_are_no_urls(base_url: str) -> None:
    """A host that only looks like this machine is refused, whatever is allowed."""
    with pytest.raises(ConfigurationError, match="base_url"):
        session(base_url, allow_insecure_http=True)


# --- settings -------------------------------------------------------------------------------

_NOT_SECONDS: list[Any] = [0, -1, True, "5", b"5", (1, 2), [], float("nan"), float("inf")]
_NOT_COUNTS: list[Any] = [0, -1, True, "5", 1.0, None, []]
SETTINGS: dict[str, list[Any]] = {
    "access_token": [
        None,
        "",
        5,
        b"token",
        [],
        {},
        dict,
        object,
        "two words",
        "line\n",
        "\ttab",
        "ünicode",
    ],
    "tenant_id": ["", " acme", "acme\n", "a\r\nb", "a\x00b", "\u20ac", "\ud800", 5, b"acme", []],
    "token_header": ["", "tok\n", "a\r\nb", "\u20ac", 5, b"tok", SecretStr(""), SecretStr("a\nb")],
    "timeout": _NOT_SECONDS,
    "deadline": _NOT_SECONDS,
    "drain": [None, *[value for value in _NOT_SECONDS if value != 0]],
    "retry": [5, "3", True, {}, RetryPolicy],
    "headers": [[("X", "1")], "X: 1", 5, {1: "x"}, {"X": 1}, {"X": b"1"}, {"X": ""}],
    "transport": [5, httpx.AsyncHTTPTransport, httpx.HTTPTransport()],
    "http_client": [5, httpx.Client(), httpx.AsyncClient],
    "max_connections": _NOT_COUNTS,
    "max_reply_bytes": _NOT_COUNTS,
    "verify": [False, None, 1, 5, b"ca.pem", []],
    "parse_float": [5, "Decimal", []],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param(name, value) for name, values in SETTINGS.items() for value in values],
    ids=lambda value: repr(value).partition(" at 0x")[0][:30],  # the same in every process
)
def test_setting_of_a_wrong_value(name: str, value: Any) -> None:
    """Each wrong setting is refused when the session is made, by its name."""
    with pytest.raises(ConfigurationError, match=rf"\b{name}"):
        session(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param(name, 10**400, id=f"{name}=10**400") for name in ("timeout", "deadline", "drain")]
    + [
        pytest.param("allow_insecure_http", value, id=f"allow_insecure_http={value!r}")
        for value in ("false", "no", 1, 0, None)
    ]
    + [
        pytest.param("timeout", httpx.Timeout("5"), id="Timeout of a string"),  # type: ignore[arg-type]
        pytest.param("timeout", httpx.Timeout(-1), id="negative Timeout"),
        pytest.param("timeout", httpx.Timeout(float("nan")), id="Timeout of NaN"),
        pytest.param("timeout", httpx.Timeout(5, pool=True), id="Timeout of True"),
    ],
)
def test_setting_that_would_fail_or_mislead_later(name: str, value: Any) -> None:
    """A setting that would only fail in a call, or mean its opposite, is refused at once."""
    with pytest.raises(ConfigurationError, match=rf"\b{name}"):
        session(**{name: value})


async def test_ca_file_that_is_none() -> None:
    """A path of authorities that cannot be read is refused when the session opens."""
    for verify in ("/nonexistent/ca.pem", Path(__file__), "\x00"):
        with pytest.raises(ConfigurationError, match="verify"):
            async with session(verify=verify):
                pass


@pytest.mark.parametrize("name", ["attempts", "backoff", "backoff_max", "retry_after_max"])
@pytest.mark.parametrize("value", [-1, True, "1", None, float("nan"), float("inf")])
def test_retry_policy_of_a_wrong_number(name: str, value: Any) -> None:
    """A number of the retry policy that is out of range or no number is refused by its name."""
    with pytest.raises(ConfigurationError, match=rf"^{name} "):
        RetryPolicy(**{name: value})


@pytest.mark.parametrize("value", [-1, float("nan"), 10**400])
def test_wait_of_a_wrong_number_is_told_what_may_be(value: float) -> None:
    """A wait may be 0 and must be a number, unlike a time-out."""
    with pytest.raises(ConfigurationError, match=r"^drain must be at least 0 seconds and finite$"):
        session(drain=value)


@pytest.mark.parametrize("name", ["backoff", "backoff_max", "retry_after_max", "jitter"])
def test_retry_policy_of_a_number_beyond_floats(name: str) -> None:
    """A number that no float can hold is refused as ours, and is no OverflowError."""
    with pytest.raises(ConfigurationError, match=rf"^{name} "):
        RetryPolicy(**{name: 10**400})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["no", "false", None, 0, 1])
def test_retry_policy_of_a_wrong_switch(value: Any) -> None:
    """The policy's switch takes True and False: a string "no" must not mean yes."""
    with pytest.raises(ConfigurationError, match="repeat_idempotent"):
        RetryPolicy(repeat_idempotent=value)


def test_retry_policy_needs_an_attempt() -> None:
    with pytest.raises(ConfigurationError, match="attempts must be a whole number of at least 1"):
        RetryPolicy(attempts=0)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Authorization", "give access_token= instead"),
        ("token", "give token_header= instead"),
        ("tenantId", "give tenant_id= instead"),
        ("Host", "it follows from base_url"),
        ("Content-Length", "it follows from the body"),
        ("Transfer-Encoding", "it follows from the body"),
        ("Content-Type", "give content_type= with the call instead"),
    ],
)
@pytest.mark.parametrize("case", [str, str.lower, str.upper, str.swapcase, str.title])
def test_header_that_is_ours(name: str, message: str, case: Callable[[str], str]) -> None:
    """A header that follows from something else is refused in any case, with what to do."""
    for value in (CANARY, None):
        with pytest.raises(ConfigurationError, match=message) as caught:
            session().with_options(headers={case(name): value})
        assert case(name) in str(caught.value)
        assert CANARY not in str(caught.value)
    with pytest.raises(ConfigurationError, match=message):
        session(headers={case(name): CANARY})


@pytest.mark.parametrize(
    "name", ["", "X Y", "X:", "X\n", "\r\nX", "é", "X\x00", "X(", "\ud800", 1, None, b"X"]
)
def test_header_name_that_no_header_can_have(name: Any) -> None:
    """A header name that the protocol does not allow is refused."""
    with pytest.raises(ConfigurationError, match="headers holds a name that no header can have"):
        session(headers={name: "x"})


@pytest.mark.parametrize(
    "value",
    [f"{CANARY}\r\nX: 1", f"{CANARY}\n", f"\r{CANARY}", f"{CANARY}\x00", f"{CANARY}\N{EURO SIGN}"],
)
def test_header_value_that_no_header_can_carry(value: str) -> None:
    """A line break, NUL or text beyond Latin-1 in a header's value is refused, unprinted."""
    for wrong in (
        {"headers": {"X-Own": value}},
        {"tenant_id": value},
        {"token_header": value},
        {"access_token": value},
    ):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))) as caught:
            session(**wrong)
        assert CANARY not in rendered(caught.value)


@pytest.mark.parametrize(
    ("token", "hint"),
    [
        (f"{CANARY}\n", "strip() it"),
        (f" {CANARY}", "strip() it"),
        (f"Bearer {CANARY}", "give the token alone"),
        (f"{CANARY} b", "RFC 6750"),
    ],
)
async def test_token_as_read_from_a_file(token: str, hint: str, transport: Counting) -> None:
    """A stray newline or word in an access token is refused, given or returned, unprinted."""

    async def source() -> str:
        return token

    with pytest.raises(ConfigurationError) as given_caught:
        session(access_token=token)
    with pytest.raises(AuthError) as returned_caught:
        await session(access_token=source, transport=transport).country_data.list_countries()

    for error in (given_caught.value, returned_caught.value):
        assert hint in str(error)
        assert CANARY not in rendered(error)
    assert transport.requests == []


@pytest.mark.parametrize("source", [lambda: "token", lambda: None, lambda required: required])
async def test_token_source_that_is_none(source: Any, transport: Counting) -> None:
    """A function that cannot give a token is an AuthError of the first call; nothing is sent."""
    with pytest.raises(AuthError) as caught:
        await session(access_token=source, transport=transport).country_data.list_countries()

    assert caught.value.outcome is Outcome.NOT_SENT
    assert caught.value.operation == "list_countries"
    assert transport.requests == []


# --- the environment ------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Provide an environment in which everything that a session needs is set."""
    for name in list(os.environ):
        if name.startswith("GATEWAY_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("GATEWAY_BASE_URL", "https://gateway.test")
    monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", CANARY)
    return monkeypatch


@pytest.mark.parametrize("name", ["GATEWAY_BASE_URL", "GATEWAY_ACCESS_TOKEN"])
@pytest.mark.parametrize("value", [None, ""])
def test_missing_variable_is_named(
    name: str, value: str | None, environment: pytest.MonkeyPatch
) -> None:
    """A variable that is needed and missing or empty is an error that names it."""
    if value is None:
        environment.delenv(name)
    else:
        environment.setenv(name, value)

    with pytest.raises(ConfigurationError, match=f"{name} is not set") as caught:
        GatewaySession.from_env()

    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("name", ["access_token", "token_header"])
def test_secret_of_the_environment_goes_to_no_other_gateway(
    environment: pytest.MonkeyPatch, name: str
) -> None:
    """A token that is for the gateway of the environment has to be replaced as well."""
    environment.setenv("GATEWAY_BASE_URL", "https://gateway.test/api")
    environment.setenv("GATEWAY_ACCESS_TOKEN", CANARY)
    environment.setenv("GATEWAY_TOKEN_HEADER", CANARY)
    complete: EnvironmentSettings = {
        "base_url": "https://other.test",
        "access_token": "other",
        "token_header": None,
    }
    lacking: Any = {key: value for key, value in complete.items() if key != name}

    with pytest.raises(ConfigurationError, match=f"another one: give {name}= too") as caught:
        GatewaySession.from_env(**lacking)

    assert CANARY not in str(caught.value)
    GatewaySession.from_env(**complete)
    GatewaySession.from_env(base_url="https://gateway.test:443/other-path")
    with pytest.raises(ConfigurationError, match="base_url must start with https://"):
        GatewaySession.from_env(base_url="other.test")


def test_argument_stands_in_for_a_variable(environment: pytest.MonkeyPatch) -> None:
    """An argument takes the place of a variable, missing or not."""
    environment.delenv("GATEWAY_BASE_URL")
    environment.setenv("GATEWAY_TENANT_ID", "from-env")

    made = GatewaySession.from_env(base_url="https://other.test", tenant_id=None)

    assert made._caller.client.base_url == "https://other.test"
    assert made._caller.options.tenant_id is None


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GATEWAY_BASE_URL", "gateway.test", "base_url must start"),
        ("GATEWAY_ACCESS_TOKEN", f"{CANARY}\n", "access_token has white space"),
        ("GATEWAY_TENANT_ID", f"{CANARY}\n", "tenant_id has white space"),
        ("GATEWAY_TOKEN_HEADER", f" {CANARY}", "token_header has white space"),
    ],
)
def test_wrong_variable_is_a_wrong_setting(
    name: str, value: str, message: str, environment: pytest.MonkeyPatch
) -> None:
    """What the environment holds is checked like an argument."""
    environment.setenv(name, value)

    with pytest.raises(ConfigurationError, match=message) as caught:
        GatewaySession.from_env()

    assert CANARY not in rendered(caught.value)


# --- arguments of calls ---------------------------------------------------------------------


async def _no_bytes() -> AsyncIterator[Any]:
    yield CANARY


def _path(value: Any) -> dict[str, Call]:
    return {
        "customer_id of 2": lambda gateway: gateway.customer.revise_customer(value, {"a": "b"}),
        "customer_id of 5": lambda gateway: gateway.wallet.trading_order_history(value),
        "wallet_id of 7": lambda gateway: gateway.wallet.cancel_order(value, "o"),
        "order_id of 7": lambda gateway: gateway.wallet.cancel_order("w", value),
        "document_id of 8": lambda gateway: gateway.aml.change_document_status(value, "x"),
        "document_id of 9": lambda gateway: gateway.aml.update_document(value, "x"),
    }


def _create(**values: Any) -> Call:
    return lambda gateway: gateway.customer.create_customer(values)


def _document(value: Any) -> Call:
    return _create(person={"documents": [{"verificationResponse": value}]})


def _upload(content: Any, *rest: Any) -> Call:
    return lambda gateway: gateway.aml.upload_document(content, *rest)


def _endless(make: Callable[[Any], Call]) -> Call:
    def call(gateway: GatewaySession) -> Any:
        value: Any = 1
        for _ in range(100_000):  # made here, because they would slow down the whole run
            value = [value]
        return make(value)(gateway)

    return call


def _series(*given: Any) -> Call:
    return lambda gateway: gateway.currency.exchange_rate_series(*given)


def _revise(revisions: Any) -> Call:
    return lambda gateway: gateway.customer.revise_customer("c", revisions)


def _send(operation: Any, **given: Any) -> Call:
    return lambda gateway: gateway.send(operation, **given)


NOW = datetime(2026, 1, 1, tzinfo=UTC)

ARGUMENTS: list[tuple[str, Call, str]] = [
    # models
    ("create: None", lambda gateway: gateway.customer.create_customer(None), "CreateRequest"),  # type: ignore[call-overload]
    ("create: text", lambda gateway: gateway.customer.create_customer(CANARY), "CreateRequest"),  # type: ignore[call-overload]
    (
        "create: another model",
        lambda gateway: gateway.customer.create_customer(PersonData(email=CANARY)),  # type: ignore[call-overload]
        "CreateRequest",
    ),
    ("create: misspelt", _create(custmerType=CANARY), "custmerType"),
    ("create: wrong case", _create(customertype=CANARY), "customertype"),
    ("create: misspelt below", _create(person={"secretQuestion": []}), "person.secretQuestion"),
    ("create: misspelt deep", _create(person={"lastName": {"nam": CANARY}}), "lastName.nam"),
    ("create: wrong type", _create(customerType=4711), "customerType"),
    ("create: text for bool", _create(isB2B="yes"), "isB2B"),
    ("create: text for int", _create(sharePercentage="12"), "sharePercentage"),
    ("create: bool for int", _create(sharePercentage=True), "sharePercentage"),
    ("create: float for int", _create(sharePercentage=1.0), "sharePercentage"),
    ("create: beyond int64", _create(sharePercentage=2**63), "sharePercentage"),
    ("create: null", _create(person=None), "person"),
    ("create: the mask", _create(person={"password": "**********"}), "person.password"),
    ("create: date", _create(person={"dateOfBirth": date(1815, 12, 10)}), "person.dateOfBirth"),
    ("create: key of no text", lambda g: g.customer.create_customer({1: CANARY}), "1"),  # type: ignore[dict-item]
    ("create: open NaN", _document(float("nan")), "verificationResponse"),
    ("create: open object", _document([object()]), "verificationResponse"),
    ("create: open and endless", _endless(_document), "verificationResponse"),
    ("create: open and huge", _document(10**5000), "body"),
    ("create: lone surrogate", _create(customerType="\ud800" + CANARY), "body"),
    ("create: surrogate for a name", _create(**{"\ud800": CANARY}), "string"),
    (
        "revise: one entry",
        _revise({"key": "a", "value": "b"}),
        "revisions is one entry",
    ),
    ("revise: nothing", _revise({}), "revisions is empty"),
    ("revise: no entry", _revise([]), "revisions is empty"),
    ("revise: None", _revise(None), "revisions must be"),
    ("revise: text", _revise(CANARY), "revisions must be"),
    ("revise: bytes", _revise(b"a"), "revisions must be"),
    ("revise: number", _revise(5), "revisions must be"),
    ("revise: pairs", _revise([("a", CANARY)]), "Revision"),
    ("revise: one entry", _revise(Revision(key="a", value=CANARY)), "Revision"),
    ("revise: number value", _revise({"a": 4711}), "value"),
    ("revise: null value", _revise({"a": None}), "value"),
    ("revise: number key", _revise({1: CANARY}), "key"),
    ("revise: lacks value", _revise([{"key": CANARY}]), "value"),
    ("revise: surrogate", _revise({"a": "\ud800" + CANARY}), "body"),
    # plain arguments
    ("page: text", lambda gateway: gateway.wallet.order_history("x", 1), "page"),  # type: ignore[call-overload]
    ("page: digits", lambda gateway: gateway.wallet.order_history("1", 1), "page"),  # type: ignore[call-overload]
    ("page: True", lambda gateway: gateway.wallet.order_history(True, 1), "page"),  # noqa: FBT003
    ("page: 1.0", lambda gateway: gateway.wallet.order_history(1.0, 1), "page"),  # type: ignore[call-overload]
    ("page: None", lambda gateway: gateway.wallet.order_history(None, 1), "page"),  # type: ignore[call-overload]
    ("take: text", lambda gateway: gateway.wallet.order_history(1, "x"), "take"),  # type: ignore[call-overload]
    ("page: endless", lambda gateway: gateway.wallet.order_history(10**5000, 1), "body"),
    ("base: None", _series(None, "USD", "a", "b"), "base"),
    ("symbols: none", _series("EUR", [], "a", "b"), "symbols is empty"),
    ("symbols: no generated", _series("EUR", iter(()), "a", "b"), "symbols is empty"),
    ("symbols: numbers", _series("EUR", [1], "a", "b"), "symbols must hold strings"),
    ("symbols: bytes", _series("EUR", b"USD", "a", "b"), "symbols must hold strings"),
    ("symbols: empty code", _series("EUR", ["USD", ""], "a", "b"), "symbols must hold strings"),
    ("symbols: comma", _series("EUR", ["USD,GBP"], "a", "b"), "symbols must hold strings"),
    ("symbols: None", _series("EUR", None, "a", "b"), "symbols"),
    ("symbols: number", _series("EUR", 5, "a", "b"), "symbols"),
    ("start: datetime", _series("EUR", "USD", NOW, "b"), "start_date is a datetime"),
    ("end: datetime", _series("EUR", "USD", "a", NOW), "end_date is a datetime"),
    ("start: number", _series("EUR", "USD", 20260101, "b"), "start_date"),
    ("end: None", _series("EUR", "USD", "a", None), "end_date"),
    # content
    ("content: None to 8", lambda g: g.aml.change_document_status("d", None), "content is missing"),  # type: ignore[call-overload]
    ("content: None to 9", lambda g: g.aml.update_document("d", None), "content is missing"),  # type: ignore[call-overload]
    ("content: None to 10", _upload(None), "content is missing"),
    ("content: number", _upload(5), "content must be .* not int"),
    ("content: True", _upload(True), "content must be .* not bool"),  # noqa: FBT003
    ("content: iterator", _upload(iter([b"x"])), "content must be .* not list_iterator"),
    ("content: set", _upload({1}), "content must be .* not set"),
    ("content: lone surrogate", _upload("\ud800" + CANARY), "half of a surrogate pair"),
    ("content: set in JSON", _upload([{CANARY}]), "the body is no JSON value"),
    ("content: NaN in JSON", _upload({CANARY: float("nan")}), "the body is no JSON value"),
    ("content: tuple for a key", _upload({(1, 2): CANARY}), "the body is no JSON value"),
    ("content: endless JSON", _endless(_upload), "the body is no JSON value"),
    ("content: missing file", _upload(Path("/nonexistent") / CANARY), "unreadable file: No such"),
    ("content: directory", _upload(Path("/")), "no regular file"),
    ("content: device", _upload(Path("/dev/null")), "no regular file"),
    ("content: file below a file", _upload(Path(__file__) / CANARY), "unreadable file"),
    ("content: name too long", _upload(Path(CANARY * 1000)), "unreadable file"),
    ("content: NUL in the name", _upload(Path(CANARY + "\x00")), "unreadable file"),
    ("content: surrogate name", _upload(Path(CANARY + "\ud800")), "unreadable file"),
    ("content_type: newline", _upload(b"x", f"{CANARY}\r\nX: 1"), "content_type"),
    ("content_type: empty", _upload(b"x", ""), "content_type is empty"),
    ("content_type: number", _upload(b"x", 5), "content_type must be a string"),
    ("content_type: euro", _upload(b"x", f"{CANARY}\u20ac"), "content_type"),
    ("content_type: of a hook", lambda g: g.kyc.send_webhook(b"x", "a\nb"), "content_type"),
    ("content_type: of nothing", lambda g: g.kyc.send_webhook(None, "text/csv"), "content_type"),
    ("on_progress: number", _upload(b"x", None, 5), "on_progress must be a function"),
    ("on_progress: text", _upload(b"x", None, "print"), "on_progress must be a function"),
    # the one way down
    ("send: no such place", _send(operations.CANCEL_ORDER, path={"id": "1"}), "no placeholder"),
    ("send: no place", _send(operations.CANCEL_ORDER, path={"walletId": "1"}), "lacks 'orderId'"),
    ("send: no path", _send(operations.CANCEL_ORDER), "path lacks"),
    ("send: path is a list", _send(operations.CANCEL_ORDER, path=[("walletId", "1")]), "path"),
    ("send: body for a GET", _send(operations.SPOT_TRADING_AVAILABLE_BALANCE, body={}), "no body"),
    ("send: body missing", _send(operations.ORDER_HISTORY), "the body is missing"),
    ("send: body of a set", _send(operations.ORDER_HISTORY, body={CANARY}), "no JSON value"),
    ("send: type", _send(operations.ORDER_HISTORY, body={}, content_type="a/b"), "content_type"),
    ("send: progress", _send(operations.ORDER_HISTORY, body={}, on_progress=print), "on_progress"),
    ("send: into 5", _send(operations.LIST_COUNTRIES, into=5), "into must be a type"),
    ("send: into object()", _send(operations.LIST_COUNTRIES, into=object()), "into must be a type"),
    ("send: into unknown", _send(operations.LIST_COUNTRIES, into="Unknown"), "into must be a type"),
    ("send: into a text", _send(operations.LIST_COUNTRIES, into="no type"), "into must be a type"),
    ("send: into nothing", _send(operations.LIST_COUNTRIES, into=""), "into must be a type"),
    ("send: into {}", _send(operations.LIST_COUNTRIES, into={}), "into must be a type"),
    (
        "send: into list of unknown",
        _send(operations.LIST_COUNTRIES, into=list["Unknown"]),  # type: ignore[name-defined]  # noqa: F821
        "into must be a type",
    ),
    ("send: operation by name", _send("cancel_order"), "operation"),
    ("send: no operation", _send(None), "operation"),
]


@pytest.mark.parametrize(
    ("call", "message"),
    [pytest.param(call, message, id=name) for name, call, message in ARGUMENTS],
)
async def test_wrong_argument(
    call: Call, message: str, gateway: GatewaySession, transport: Counting
) -> None:
    """A wrong argument is refused by name before anything is sent, without any value of it."""
    with pytest.raises(InvalidArgumentError, match=message) as caught:
        await call(gateway)

    assert transport.requests == []
    assert caught.value.outcome is Outcome.NOT_SENT
    assert caught.value.advice is not Advice.CHECK
    assert caught.value.attempts == ()
    assert CANARY not in rendered(caught.value)
    assert CANARY.encode() not in pickle.dumps(caught.value)
    assert len(str(caught.value)) < 2500


@pytest.mark.parametrize("revisions", [[Revision.model_construct(key=CANARY, value=4711)]])  # type: ignore[arg-type]
async def test_model_made_past_validation(
    revisions: Any, gateway: GatewaySession, transport: Counting
) -> None:
    """A model that was made without validation is refused as a wrong argument, unprinted."""
    forged = CreateRequest.model_construct(customer_type=[CANARY])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError) as created:
        await gateway.customer.create_customer(forged)
    with pytest.raises(InvalidArgumentError) as revised:
        await gateway.customer.revise_customer("c", revisions)

    assert CANARY not in rendered(created.value) + rendered(revised.value)
    assert transport.requests == []


async def test_a_forged_model_of_texts_is_not_sent(
    gateway: GatewaySession, transport: Counting
) -> None:
    """Models of texts are written in a faster way, which looks at each value."""
    series: Any = {"base": "EUR", "symbols": "USD", "start_date": "2026-01-01", "end_date": 4711}
    forged = ExchangeRateSeriesRequest.model_construct(**series)
    with pytest.raises(InvalidArgumentError):
        await gateway.send(operations.EXCHANGE_RATE_SERIES, body=forged)

    assert transport.requests == []


async def test_message_of_many_problems_is_short(gateway: GatewaySession) -> None:
    """A request with thousands of wrong fields is refused with some of them, not a megabyte."""
    wrong = {"notifications": [{"isEnabled": "yes"}] * 5000}

    with pytest.raises(InvalidArgumentError, match=r"notifications\.0\.isEnabled") as caught:
        await gateway.customer.create_customer(wrong)

    assert len(str(caught.value)) < 2500


async def test_missing_tenant_is_named_before_sending(transport: Counting) -> None:
    """Creating a customer without a tenant is refused, with where to give it."""
    with pytest.raises(InvalidArgumentError, match=r"tenant_id is missing: give it to the session"):
        await session(transport=transport).customer.create_customer({})

    assert transport.requests == []


async def test_unreadable_file(
    gateway: GatewaySession, transport: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that may not be read is refused without its name."""

    def refuse(path: Path, _: str) -> None:  # what root, who runs the tests, never meets
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    path = tmp_path / CANARY
    path.write_bytes(b"x")
    monkeypatch.setattr(Path, "open", refuse)

    with pytest.raises(InvalidArgumentError, match="unreadable file: Permission denied") as caught:
        await gateway.aml.upload_document(path)

    assert CANARY not in rendered(caught.value)
    assert transport.requests == []


async def test_stream_of_no_bytes() -> None:
    """A stream of anything but bytes is refused when it turns out, without what it yielded."""
    reading = httpx.MockTransport(lambda _: httpx.Response(200))
    with pytest.raises(UploadFailedError, match="not of bytes") as caught:
        await session(transport=reading).aml.upload_document(_no_bytes())

    assert CANARY not in rendered(caught.value)


# --- path segments --------------------------------------------------------------------------

REFUSED_SEGMENTS: list[Any] = [
    "", ".", "..", "\n", "a\nb", "a\r", "a\x00b", "\x7f", "\x85", "\ud800", "a\udfff",
    None, 5, 1.5, True, b"c-1", ["c-1"], date(2026, 1, 1), "a" * 70_000, "\u20ac" * 10_000,
]  # fmt: skip


@pytest.mark.parametrize("value", REFUSED_SEGMENTS, ids=lambda value: repr(value)[:20])
async def test_segment_that_cannot_be_one(
    value: Any, gateway: GatewaySession, transport: Counting
) -> None:
    """What cannot be one path segment is refused by the name of the argument."""
    for name, call in _path(value).items():
        with pytest.raises(InvalidArgumentError, match=name.split()[0]) as caught:
            await call(gateway)
        assert caught.value.field == name.split()[0]

    assert transport.requests == []


ENCODED_SEGMENTS = {
    "/": b"%2F",
    "a/../b": b"a%2F..%2Fb",
    "../../kyc": b"..%2F..%2Fkyc",
    "?": b"%3F",
    "#": b"%23",
    "%": b"%25",
    "%2e%2e": b"%252e%252e",
    "%2F": b"%252F",
    "\\": b"%5C",
    "..\\..": b"..%5C..",
    ";": b"%3B",
    "...": b"...",
    " ": b"%20",
    "+": b"%2B",
    "é": b"%C3%A9",
    "\N{EURO SIGN}": b"%E2%82%AC",
    "a@b:c": b"a%40b%3Ac",
    "{orderId}": b"%7BorderId%7D",
    "~-_.": b"~-_.",
}


@pytest.mark.parametrize(("value", "raw"), ENCODED_SEGMENTS.items())
async def test_segment_is_encoded(
    value: str, raw: bytes, gateway: GatewaySession, transport: Counting
) -> None:
    """What means something in a path is percent-encoded, so that it stays one segment."""
    await gateway.wallet.cancel_order(value, value)

    assert transport.requests[0].url.raw_path == b"/wallet/1.0.0/" + raw + b"/orders/" + raw


async def test_no_text_reaches_another_path() -> None:
    """Over a socket, any text is refused or is exactly that one segment of exactly that path."""
    targets: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            targets.append((await read_request(reader)).split(b" ")[1])
            writer.write(OK)
            await writer.drain()

    texts = st.one_of(
        st.text(max_size=12),
        st.text(alphabet="./\\%?#2eE;: \n\x00{}ä\ud800", max_size=8),
    )
    examples: list[str] = []

    @settings(deadline=None)
    @given(texts)
    def collect(text: str) -> None:
        examples.append(text)

    collect()
    async with raw_server(handler) as base_url, session(base_url) as gateway:
        for text in examples:
            targets.clear()
            try:
                await gateway.wallet.trading_order_history(text)
            except InvalidArgumentError:
                assert targets == []
                continue
            (target,) = targets
            head, segment, tail = target.rsplit(b"/", 2)
            assert head == b"/wallet/1.0.0"
            assert tail == b"trading-order-history"
            assert httpx.URL("http://h/" + segment.decode("ascii")).path == "/" + text
            assert not set(segment) & set(b"/?#\\;:@ \r\n\x00")
            assert segment not in (b".", b"..")


# --- the state of a session -----------------------------------------------------------------


@pytest.mark.parametrize("name", CALLS)
async def test_closed_session(name: str, gateway: GatewaySession, transport: Counting) -> None:
    """A closed session, and any view of it, refuses every call."""
    view = gateway.with_options(tenant_id="other")
    await gateway.country_data.list_countries()
    transport.requests.clear()
    await gateway.aclose()

    for closed in (gateway, view):
        with pytest.raises(SessionStateError, match="the session is closed") as caught:
            await CALLS[name](closed)
        assert caught.value.operation == name
        assert caught.value.outcome is Outcome.NOT_SENT

    with pytest.raises(SessionStateError, match="the session is closed"):
        await gateway.__aenter__()
    assert transport.requests == []


async def test_session_closed_before_use(gateway: GatewaySession, transport: Counting) -> None:
    """A session that was closed before it was ever used is closed as well."""
    await gateway.aclose()
    await gateway.aclose()

    with pytest.raises(SessionStateError, match="the session is closed"):
        await gateway.country_data.list_countries()

    assert transport.requests == []


def test_another_event_loop(gateway: GatewaySession, transport: Counting) -> None:
    """A session that was opened in one event loop refuses to be used or closed in another."""
    asyncio.run(_list(gateway))
    transport.requests.clear()

    with pytest.raises(SessionStateError, match="another event loop"):
        asyncio.run(_list(gateway))
    with pytest.raises(SessionStateError, match="another event loop"):
        asyncio.run(gateway.aclose())

    assert transport.requests == []


async def _list(gateway: GatewaySession) -> None:
    await gateway.country_data.list_countries()


def test_after_a_fork(gateway: GatewaySession, transport: Counting) -> None:
    """A session that was opened before a fork refuses to be used in the child."""
    loop = asyncio.new_event_loop()
    loop.run_until_complete(_list(gateway))
    receiving, sending = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: threads of other tests
        child = os.fork()
    if child == 0:
        said = b"nothing"
        try:
            asyncio.events._set_running_loop(loop)
            coroutine = gateway.country_data.list_countries()
            coroutine.send(None)
        except SessionStateError as error:
            said = str(error).encode()
        except BaseException as error:  # noqa: BLE001 - the parent is told
            said = repr(error).encode()
        finally:
            os.write(sending, said)
            os._exit(0)

    os.waitpid(child, 0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as pipe:
        said = pipe.read()
    loop.close()

    assert b"the session was opened in the parent process" in said


@pytest.mark.parametrize("make", [session, lambda: session().with_options(tenant_id="a")])
def test_session_is_not_pickled(make: Callable[[], GatewaySession]) -> None:
    """A session and a view hold connections and credentials: neither is pickled."""
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(make())


def test_texts_of_a_session_hold_no_credentials() -> None:
    """The texts of a session, its options and its inner parts show no credential."""
    made = session(
        tenant_id="acme", token_header=CANARY, headers={"X-Key": CANARY}, access_token=CANARY
    )

    for shown in (
        made,
        made._caller.options,
        made._caller.client,
        made.with_options(access_token=CANARY),
    ):
        assert CANARY not in repr(shown)
        assert CANARY not in str(shown)


def test_transport_and_client_exclude_each_other() -> None:
    """A transport and a client at once are refused, naming both."""
    client = httpx.AsyncClient(transport=Counting())

    with pytest.raises(ConfigurationError, match=r"transport= or http_client=, not both"):
        session(transport=Counting(), http_client=client)


def test_every_error_of_bad_input_is_a_value_error() -> None:
    """Wrong settings and arguments are ValueErrors too, for those who catch these."""
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(InvalidArgumentError, ValueError)
    assert issubclass(SessionStateError, RuntimeError)
    assert issubclass(ConfigurationError, GatewayError)


def test_own_tls_context_is_taken() -> None:
    """A TLS context, a path and True are the three forms of `verify`."""
    for verify in (True, "/etc/ssl/certs", Path("/etc/ssl"), ssl.create_default_context()):
        assert session(verify=verify)._caller.client.base_url.scheme == "https"
