"""Connections that do not come about with the asyncio engine: nothing was sent."""

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway_sdk._call.failure import reason_of
from gateway_sdk._transport.transmission import Transmission
from tests.support.engines import IDLE, Engine, make_request
from tests.support.raw_server import raw_server


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """An engine with two slots, closed after the test."""
    made = Engine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    yield made
    await made.aclose()


async def test_a_handshake_that_hangs_ends_with_the_connect_time_out(
    engine: Engine,
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
async def test_a_host_that_cannot_be(engine: Engine, host: str) -> None:
    """A name that cannot be looked up is no connection, whatever the system says."""
    with pytest.raises(httpx.ConnectError):
        await engine.handle_async_request(make_request(f"http://{host.replace(' ', '-' * 70)}"))

    assert IDLE in repr(engine)


async def test_a_time_out_of_the_system_is_not_ours(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system gives up by its own clock, so the seconds of `timeout` are not named."""

    async def give_up(*_: object) -> None:
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", give_up)

    with pytest.raises(httpx.ConnectError) as caught:
        await engine.handle_async_request(make_request("http://127.0.0.1:9", connect=30))

    assert isinstance(caught.value.__cause__, TimeoutError)
    text = os.strerror(errno.ETIMEDOUT)
    assert reason_of(caught.value, httpx.Timeout(30)).text == text[:1].lower() + text[1:]
