"""The asyncio engine over real sockets: slots, connecting, idle connections, its end."""

import asyncio
import errno
import os
import ssl
from itertools import chain
from typing import cast

import httpx
import pytest

from gateway_sdk._call.failure import reason_of
from gateway_sdk._transport.pool import KEEPALIVE_EXPIRY
from gateway_sdk._transport.transmission import Transmission
from tests.support.engines import IDLE, Engine, body_of, make_request
from tests.support.raw_server import OK, raw_server, read_request


class Server:
    """Answers every request, and knows its connections.

    Attributes:
        received: The requests of each connection.
        writers: The connections.
    """

    def __init__(self, reply: bytes = OK) -> None:
        self.received: list[list[bytes]] = []
        self.writers: list[asyncio.StreamWriter] = []
        self._reply = reply

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        mine: list[bytes] = []
        self.received.append(mine)
        self.writers.append(writer)
        while True:
            mine.append(await read_request(reader))
            writer.write(self._reply)


async def test_waiting_for_a_slot_ends_with_the_pool_time_out(engine: Engine) -> None:
    """A caller that finds no free slot in time gets PoolTimeout, and nothing was sent."""
    transmission = Transmission(sent=False)
    server = Server(OK[:-1])
    async with raw_server(server.handle) as url:
        held = [await engine.handle_async_request(make_request(url)) for _ in range(2)]
        with pytest.raises(httpx.PoolTimeout):
            await engine.handle_async_request(
                make_request(url, transmission=transmission, pool=0.01)
            )
        for response, writer in zip(held, server.writers, strict=True):
            writer.write(OK[-1:])
            await body_of(response)

    assert not transmission.sent
    assert IDLE in repr(engine)


class Clock:
    """Shows the time that a test says."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_old_idle_connections_are_not_used() -> None:
    """A connection that was idle for longer than load balancers allow is let go."""
    clock, server = Clock(), Server()
    engine = Engine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), clock=clock)
    async with raw_server(server.handle) as url, engine:
        for passed in (0.0, KEEPALIVE_EXPIRY - 1, KEEPALIVE_EXPIRY + 1):
            clock.now += passed
            await body_of(await engine.handle_async_request(make_request(url)))

    assert [len(received) for received in server.received] == [2, 1]


async def test_old_idle_connections_are_cut_without_another_call() -> None:
    """The engine looks from time to time; a younger one stays, and is looked at later."""
    clock, server = Clock(), Server(OK[:-1])
    engine = Engine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), clock=clock)
    async with raw_server(server.handle) as url, engine:
        held = [await engine.handle_async_request(make_request(url)) for _ in range(2)]
        for half, response in enumerate(held):
            clock.now = half * KEEPALIVE_EXPIRY / 2
            server.writers[half].write(OK[-1:])
            await body_of(response)
        assert "2 idle" in repr(engine)
        clock.now = KEEPALIVE_EXPIRY
        engine._pool._prune()
        assert "1 idle" in repr(engine)
        assert engine._pool._timer is not None
        loop = asyncio.get_running_loop()
        assert engine._pool._timer.when() - loop.time() == pytest.approx(
            KEEPALIVE_EXPIRY / 2, abs=5
        )
        clock.now *= 2
        engine._pool._prune()
        assert "0 idle" in repr(engine)
        assert engine._pool._timer is None


async def test_a_connection_serves_its_own_origin_only(engine: Engine) -> None:
    """A request to another origin goes over another connection."""
    servers = Server(), Server()
    async with raw_server(servers[0].handle) as one, raw_server(servers[1].handle) as other:
        for url in (one, other):
            await body_of(await engine.handle_async_request(make_request(url)))

    assert [len(server.received) for server in servers] == [1, 1]


async def test_closing_cuts_what_is_open(engine: Engine) -> None:
    """Idle or used: both ends are closed when it returns."""
    server = Server(OK[:-1])
    async with raw_server(server.handle) as url:
        response = await engine.handle_async_request(make_request(url))
        await engine.aclose()
        assert not engine._pool._open
        with pytest.raises(httpx.RemoteProtocolError):
            await body_of(response)
        stream = cast("httpx.AsyncByteStream", response.stream)
        await stream.aclose()
        await stream.aclose()  # closing twice does not give the slot back twice
        assert IDLE in repr(engine)
        with pytest.raises(httpx.StreamClosed):
            await body_of(response)


async def test_a_connection_that_is_lost_at_once_is_not_kept_track_of(
    engine: Engine,
) -> None:
    """Nothing would ever take it away again."""
    async with raw_server(Server().handle) as url:
        await body_of(await engine.handle_async_request(make_request(url)))
        (connection,) = engine._pool._open
        connection.abort()
        await connection.closed
        engine._pool.add(connection)

    assert not engine._pool._open


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


async def test_while_the_server_is_away_one_call_at_a_time_tries(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait for what becomes of it: its error is theirs, and after a success they go."""
    route, release, tries = engine._route, asyncio.Event(), 0
    errors: list[Exception] = []

    async def trying(*_: object) -> str:
        nonlocal tries
        tries += 1
        await release.wait()
        if errors:
            raise errors[0]
        return "connected"

    async def five() -> list[object]:
        url = httpx.URL("http://gateway.test")
        calls = [route.open(url, Transmission(sent=False), None) for _ in range(5)]
        opening = [asyncio.create_task(call) for call in calls]
        await asyncio.sleep(0)
        tried.append(tries)
        release.set()
        await asyncio.wait(opening)
        release.clear()
        return [task.exception() or task.result() for task in opening]

    tried: list[int] = []
    monkeypatch.setattr(route, "_open", trying)
    errors.append(OSError("refused"))
    failed = [await five(), await five()]
    errors.clear()
    connected = [await five(), await five()]

    assert all(isinstance(error, httpx.ConnectError) for error in chain(*failed))
    assert connected == [["connected"] * 5] * 2
    # Five know of nothing yet; then one tries for all five, and one more, who is successful.
    assert tried == [5, 6, 7, 16]
