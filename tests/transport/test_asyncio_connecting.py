"""Connections that do not come about with the asyncio engine: nothing was sent."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway_sdk._transport.asyncio_engine import AsyncioEngine
from gateway_sdk._transport.transmission import Transmission
from tests.support.engines import IDLE, make_request
from tests.support.raw_server import raw_server


@pytest.fixture
async def engine() -> AsyncIterator[AsyncioEngine]:
    """An engine with two slots, closed after the test."""
    made = AsyncioEngine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    yield made
    await made.aclose()


async def test_a_handshake_that_hangs_ends_with_the_connect_time_out(
    engine: AsyncioEngine,
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
    assert IDLE in repr(engine)


@pytest.mark.parametrize("host", ["a" * 64 + ".test", "a..test", "2130706433", "no such.test"])
async def test_a_host_that_cannot_be(engine: AsyncioEngine, host: str) -> None:
    """A name that cannot be looked up is no connection, whatever the system says."""
    with pytest.raises(httpx.ConnectError):
        await engine.handle_async_request(make_request(f"http://{host.replace(' ', '-' * 70)}"))

    assert IDLE in repr(engine)
