"""Who has replaced the network of httpx: a test's mock is sent through, a tracer is not.

A session with no setting does the right thing with every tool.
"""

import functools
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import httpx
import pytest
import respx
import sentry_sdk
import vcr
from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
from pytest_httpx import HTTPXMock
from sentry_sdk.integrations.httpx import HttpxIntegration

from gateway_sdk import (
    ConfigurationError,
    ConnectionFailedError,
    GatewaySession,
    Outcome,
    RateLimit,
    ReplyLostError,
)
from gateway_sdk._transport import through_httpx
from gateway_sdk._transport.engine import Exchange
from tests.interface_table import COUNTRY
from tests.support.raw_server import OK, Server, raw_server

URL: Final = "https://gateway.test"
LIST: Final = f"{URL}/countrydata/1.0.0/listData"
LISTED: Final = OK.replace(b"{}", b"[]")


def session(url: str = URL, **options: Any) -> GatewaySession:
    return GatewaySession(url, access_token="t", tenant_id="acme", **{"retry": None, **options})


@pytest.fixture
def by_engine(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    heads: list[bytes] = []
    send = Exchange.send

    async def noting(exchange: Exchange, head: bytes, *given: Any) -> None:
        heads.append(head)
        await send(exchange, head, *given)

    monkeypatch.setattr(Exchange, "send", noting)
    return heads


@pytest.fixture
def instrumented(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install OpenTelemetry's instrumentor of httpx, and Sentry's, until the end of the test."""
    for client in (httpx.AsyncClient, httpx.Client):  # Sentry has no way to take its layer off
        monkeypatch.setattr(client, "send", client.send)
    instrumentor = HTTPXClientInstrumentor()
    instrumentor.instrument()
    sentry_sdk.init(
        integrations=[HttpxIntegration()],
        default_integrations=False,
        auto_enabling_integrations=False,
    )
    HttpxIntegration.setup_once()  # `init` does it only once in a process
    yield
    sentry_sdk.get_global_scope().set_client(None)
    instrumentor.uninstrument()


# --- mocks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("traced", [False, True])
async def test_pytest_httpx(
    request: pytest.FixtureRequest, httpx_mock: HTTPXMock, by_engine: list[bytes], traced: bool
) -> None:
    """The layer of a tracer around a mock is peeled off, and the mock is found below it."""
    if traced:
        request.getfixturevalue("instrumented")
    httpx_mock.add_response(url=LIST, json=[COUNTRY])

    async with session() as gateway:
        countries = await gateway.country_data.list_countries()

    assert countries[0].currency == "PLN"
    assert not by_engine


async def test_vcrpy_records_and_plays(tmp_path: Path, by_engine: list[bytes]) -> None:
    """The first call reaches the server, the second is read from the cassette."""
    cassette = str(tmp_path / "cassette.yaml")
    async with raw_server(Server(LISTED).handle) as url:
        with vcr.use_cassette(cassette):
            async with session(url) as gateway:
                assert await gateway.country_data.list_countries() == []
    with vcr.use_cassette(cassette, record_mode="none") as tape:
        async with session(url) as gateway:
            assert await gateway.country_data.list_countries() == []

    assert tape.play_count == 1
    assert not by_engine


async def test_respx_mocker_of_httpx_sees_the_own_client_alone() -> None:
    """Respx's other mocker patches httpx.AsyncClient: it sees that, and not our engine."""
    async with respx.mock(using="httpx", assert_all_called=True) as router:
        router.post(LIST).respond(json=[COUNTRY])
        async with httpx.AsyncClient() as client:
            assert len(await session(http_client=client).country_data.list_countries()) == 1
        async with session("http://127.0.0.1:1") as gateway:
            with pytest.raises(ConnectionFailedError):
                await gateway.country_data.list_countries()


async def test_respx_lets_nothing_past() -> None:
    """A request without a route does not reach the network: respx says so."""
    async with respx.mock(), session() as gateway:
        with pytest.raises(AssertionError, match="not mocked"):
            await gateway.country_data.list_countries()


@pytest.mark.parametrize(
    ("side_effect", "error", "outcome"),
    [
        (httpx.ConnectError("x"), ConnectionFailedError, Outcome.NOT_SENT),
        (httpx.PoolTimeout("x"), ConnectionFailedError, Outcome.NOT_SENT),
        (httpx.ReadTimeout("x"), ReplyLostError, Outcome.UNKNOWN),
        (httpx.RemoteProtocolError("x"), ReplyLostError, Outcome.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
async def test_failures_of_a_mock(
    side_effect: Exception, error: type[Exception], outcome: Outcome
) -> None:
    """They have the outcomes that the engine's own failures have, so users can test theirs."""
    async with respx.mock() as router, session() as gateway:
        router.post(f"{URL}/aml/1.0.0/document/upload").mock(side_effect=side_effect)
        with pytest.raises(error) as caught:
            await gateway.aml.upload_document(b"x")

    assert caught.value.outcome is outcome  # type: ignore[attr-defined]


async def test_a_mock_holds_slot_and_permit_as_a_server_does() -> None:
    """What a session limits is limited in tests too, and comes back."""
    shown: list[str] = []

    def answer(_: httpx.Request) -> httpx.Response:
        shown.append(repr(gateway._caller.shared._transport))
        return httpx.Response(200, json=[COUNTRY])

    async with (
        respx.mock() as router,
        session(max_connections=1, rate_limit=RateLimit(100)) as gateway,
    ):
        router.post(LIST).mock(side_effect=answer)
        for _ in range(3):
            await gateway.country_data.list_countries()
        answer(httpx.Request("GET", URL))

    assert [text.split()[1] for text in shown] == ["1", "1", "1", "0"]


async def test_a_session_goes_back_to_the_engine_after_the_mock(by_engine: list[bytes]) -> None:
    async with raw_server(Server(LISTED).handle) as url, session(url) as gateway:
        await gateway.country_data.list_countries()
        async with respx.mock() as router:
            router.post(f"{url}/countrydata/1.0.0/listData").respond(json=[COUNTRY])
            assert len(await gateway.country_data.list_countries()) == 1
        await gateway.country_data.list_countries()

    assert len(by_engine) == 2


async def test_httpx_network_that_a_thread_imports_just_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The module is known by then, and has no names yet: nobody has replaced them."""
    monkeypatch.setitem(sys.modules, "httpcore", ModuleType("httpcore"))
    async with raw_server(Server(LISTED).handle) as url, session(url) as gateway:
        assert await gateway.country_data.list_countries() == []


# --- tracers --------------------------------------------------------------------------------


@pytest.mark.usefixtures("instrumented")
async def test_tracers_do_not_change_the_engine(
    by_engine: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """OpenTelemetry's instrumentor and Sentry's integration, as in production."""
    method = vars(httpx.AsyncHTTPTransport)["handle_async_request"]
    assert hasattr(method, "__wrapped__"), "the instrumentor wraps another method now"
    with caplog.at_level(logging.WARNING, "gateway_sdk"):
        async with raw_server(Server(LISTED).handle) as url, session(url) as gateway:
            await gateway.country_data.list_countries()

    assert len(by_engine) == 1
    assert not caplog.records


@pytest.mark.parametrize("kind", ["a wrapper", "a function", "an object without a module"])
async def test_what_is_unknown_keeps_the_engine_and_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    by_engine: list[bytes],
    kind: str,
) -> None:
    """A write must not go another way because some library has replaced a method."""
    through_httpx._warn_once.cache_clear()
    original = httpx.AsyncHTTPTransport.handle_async_request

    async def function(*given: Any) -> httpx.Response:
        raise AssertionError(given)

    if kind == "a wrapper":
        functools.update_wrapper(function, original)
    replaced = object() if "object" in kind else function
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", replaced)
    with caplog.at_level(logging.WARNING, "gateway_sdk"):
        async with raw_server(Server(LISTED).handle) as url, session(url) as gateway:
            for _ in range(3):
                await gateway.country_data.list_countries()

    assert len(by_engine) == 3
    (record,) = caplog.records
    assert "calls still go to the gateway" in record.getMessage()
    assert ("object" in kind) or __name__.partition(".")[0] in record.getMessage()


async def test_a_mock_of_clients_is_refused_before_a_request_leaves_the_test() -> None:
    """But for a gateway on this machine, such as a sandbox: there a request does no harm."""
    with respx.mock(using="httpx", assert_all_called=False):
        async with session() as gateway:
            with pytest.raises(ConfigurationError, match="leave out using="):
                await gateway.kyc.send_webhook()
