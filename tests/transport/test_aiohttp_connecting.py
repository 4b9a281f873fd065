"""Connections that do not come about with the aiohttp engine: nothing was sent."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import aiohttp
import httpx
import pytest

from gateway_sdk._transport.aiohttp_engine import AiohttpEngine
from gateway_sdk._transport.transmission import Transmission
from tests.support.engines import IDLE, make_request
from tests.support.failing_steps import turns
from tests.support.raw_server import raw_server


@pytest.fixture
async def engine() -> AsyncIterator[AiohttpEngine]:
    """An engine with two slots, closed after the test."""
    made = AiohttpEngine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    yield made
    await made.aclose()


async def test_a_connection_that_is_lost_at_once_is_none(
    engine: AiohttpEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that has hung up before the request began has not got a byte of it."""
    transmission = Transmission(sent=False)
    connector: Any = engine._session.connector
    make = connector._create_connection

    async def swallow(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async def make_and_lose(*given: Any) -> Any:
        protocol = await make(*given)
        protocol.transport.abort()
        await turns(3)
        return protocol

    monkeypatch.setattr(connector, "_create_connection", make_and_lose)
    async with raw_server(swallow) as url:
        with pytest.raises(httpx.ConnectError, match="hung up at once"):
            await engine.handle_async_request(make_request(url, transmission=transmission))

    assert not transmission.sent
    assert repr(engine) == IDLE
    assert not connector._acquired


_INFO: Any = SimpleNamespace(real_url="http://g.test/canary")
FAILURES: dict[type[httpx.TransportError], list[Exception]] = {
    httpx.ConnectTimeout: [TimeoutError(), aiohttp.ConnectionTimeoutError()],
    httpx.ConnectError: [OSError(), aiohttp.ClientConnectionError(), UnicodeError()],
    httpx.ProxyError: [
        aiohttp.ClientHttpProxyError(_INFO, (), status=407),
        aiohttp.ClientResponseError(_INFO, (), status=400),
    ],
}


@pytest.mark.parametrize(
    ("kind", "error"), [(kind, error) for kind in FAILURES for error in FAILURES[kind]], ids=repr
)
async def test_no_connection_is_said_in_the_words_of_httpx(
    engine: AiohttpEngine,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[httpx.TransportError],
    error: Exception,
) -> None:
    """Whatever keeps a connection from coming about, nothing was sent, and no address is shown."""

    async def fail(*_: Any) -> None:
        raise error

    transmission = Transmission(sent=False)
    monkeypatch.setattr(engine._session.connector, "_create_connection", fail)
    with pytest.raises(httpx.TransportError) as caught:
        await engine.handle_async_request(
            make_request("http://g.test/canary", transmission=transmission)
        )

    assert type(caught.value) is kind
    assert not transmission.sent
    assert "canary" not in str(caught.value) + str(caught.value.__cause__)
    assert repr(engine) == IDLE


async def test_a_handshake_that_hangs_ends_with_the_connect_time_out(
    engine: AiohttpEngine,
) -> None:
    """It is a part of connecting, and nothing was sent."""

    async def swallow(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    transmission = Transmission(sent=False)
    async with raw_server(swallow) as url:
        request = make_request(
            url.replace("http", "https"), transmission=transmission, connect=0.05
        )
        with pytest.raises(httpx.ConnectTimeout):
            await engine.handle_async_request(request)

    assert not transmission.sent
    assert repr(engine) == IDLE


@pytest.mark.parametrize("host", ["a" * 64 + ".test", "a..test", "2130706433", "no such.test"])
async def test_a_host_that_cannot_be(engine: AiohttpEngine, host: str) -> None:
    """A name that cannot be looked up is no connection, whatever the system says."""
    with pytest.raises(httpx.ConnectError):
        await engine.handle_async_request(make_request(f"http://{host.replace(' ', '-' * 70)}"))

    assert repr(engine) == IDLE
