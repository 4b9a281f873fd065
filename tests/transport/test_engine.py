"""The asyncio engine over real sockets: reuse, what was sent, replies of every form."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from typing import cast

import httpx
import pytest

from gateway_sdk._transport.pool import KEEPALIVE_EXPIRY
from gateway_sdk._transport.transmission import Transmission
from gateway_sdk.rate_limit import RateLimit, RateLimiter
from tests.support.engines import IDLE, Engine, body_of, make_request
from tests.support.failing_steps import turns
from tests.support.raw_server import OK, raw_server, read_request


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """An engine with two slots, closed after the test."""
    made = Engine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    yield made
    await made.aclose()


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


async def test_a_connection_is_used_again(engine: Engine) -> None:
    """Calls one after the other go over one connection."""
    server = Server()
    async with raw_server(server.handle) as url:
        for _ in range(3):
            assert await body_of(await engine.handle_async_request(make_request(url))) == b"{}"

    assert [len(received) for received in server.received] == [3]
    assert IDLE in repr(engine)


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection without a word."""
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


END: dict[str, Callable[[asyncio.StreamWriter], None]] = {
    "closed": lambda writer: writer.transport.abort(),
    "reset": reset,
    "a reply that nobody asked for": lambda writer: writer.write(OK),
    "a byte": lambda writer: writer.write(b"H"),
}


@pytest.mark.parametrize(
    ("how", "noticed"),
    [(how, noticed) for how in END for noticed in (True, False)],
)
async def test_connections_that_ended_while_they_were_idle(
    engine: Engine, how: str, noticed: bool
) -> None:
    """However many there are, a request goes over a new one, and over no other before."""
    server, both_came = Server(), asyncio.Barrier(2)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(server.received) < 2:
            mine = await read_request(reader)
            server.received.append([mine])
            server.writers.append(writer)
            await both_came.wait()
            writer.write(OK)
            await reader.read()
        else:
            await server.handle(reader, writer)

    async with raw_server(handle) as url:
        calls = (engine.handle_async_request(make_request(url)) for _ in range(2))
        for response in await asyncio.gather(*calls):
            await body_of(response)
        for writer in server.writers:
            END[how](writer)
        await turns(10 if noticed else 1)  # a transport ends in the turn after
        assert await body_of(await engine.handle_async_request(make_request(url, "PUT"))) == b"{}"

    assert [len(received) for received in server.received] == [1, 1, 1]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
@pytest.mark.parametrize("used", [True, False], ids=["used", "fresh"])
async def test_nothing_is_sent_a_second_time(engine: Engine, method: str, used: bool) -> None:
    """A server that hangs up on a request gets it once."""
    received: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if used:
            await read_request(reader)
            writer.write(OK)
        received.append(await read_request(reader))

    transmission = Transmission(sent=False)
    content = b"x" if method in {"PUT", "POST"} else None
    async with raw_server(hang_up) as url:
        if used:
            await body_of(await engine.handle_async_request(make_request(url)))
        with pytest.raises(httpx.RemoteProtocolError) as caught:
            await engine.handle_async_request(
                make_request(url, method, transmission, content=content)
            )

    assert len(received) == 1
    assert transmission.sent
    assert caught.value.__context__ is None  # whose text would show where it was sent
    assert IDLE in repr(engine)


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


async def test_the_rate_limit_is_asked_before_each_request() -> None:
    """A request that may not be sent yet has sent nothing, and gives its slot back."""
    engine = Engine(
        1, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), limiter=RateLimiter(RateLimit(1, 1000.0))
    )
    server = Server()
    async with raw_server(server.handle) as url, engine:
        await body_of(await engine.handle_async_request(make_request(url)))
        waiting = asyncio.create_task(engine.handle_async_request(make_request(url)))
        await turns(20)
        assert "1 of 1 taken" in repr(engine)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert "0 of 1 taken" in repr(engine)

    assert [len(received) for received in server.received] == [1]


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
