"""Content that is cancelled, late or overtaken by an end, over the asyncio engine."""

import asyncio
import socket
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway_sdk._transport.transmission import Transmission
from tests.support.engines import IDLE, Engine, Greedy, make_request
from tests.support.failing_steps import turns
from tests.support.raw_server import OK, raw_server


@pytest.mark.parametrize("turn", [0, 1, 2])
async def test_what_is_cancelled_before_its_first_piece_is_not_sent(
    engine: Engine, turn: int
) -> None:
    """The piece is there, and the caller has not had its turn yet to notice that it is over."""
    transmission, server = Transmission(sent=False), Greedy()

    async def stream() -> AsyncIterator[bytes]:
        await turns(turn)
        call.cancel()
        yield b"x"

    async with raw_server(server.handle) as url:
        call = asyncio.create_task(
            engine.handle_async_request(make_request(url, "PUT", transmission, content=stream()))
        )
        await asyncio.wait([call])

    assert call.cancelled()
    assert not transmission.sent
    assert not server.has_head.is_set()
    assert IDLE in repr(engine)


@pytest.mark.parametrize("turn", [0, 1])
@pytest.mark.parametrize("after", [0, 1])
async def test_a_content_that_is_cancelled_itself_cancels_the_call(
    engine: Engine, after: int, turn: int
) -> None:
    """Whatever it waited for was cancelled: that comes up as it is, as from any coroutine."""
    transmission, server = Transmission(sent=False), Greedy()

    async def stream() -> AsyncIterator[bytes]:
        for _ in range(after):
            yield b"x"
        await turns(turn)
        raise asyncio.CancelledError

    async with raw_server(server.handle) as url:
        with pytest.raises(asyncio.CancelledError):
            await engine.handle_async_request(
                make_request(url, "PUT", transmission, content=stream())
            )
        server.may_read.set()

    assert transmission.sent == bool(after)
    assert IDLE in repr(engine)


async def test_a_connection_that_ends_before_the_first_piece_was_sent_nothing(
    engine: Engine,
) -> None:
    """The head goes with the first piece: as long as that is awaited, nothing was sent."""
    transmission, hung_up = Transmission(sent=False), asyncio.Event()

    async def late() -> AsyncIterator[bytes]:
        await hung_up.wait()
        await turns(10)
        yield b"x"

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
        )
        writer.transport.abort()
        hung_up.set()

    async with raw_server(hang_up) as url:
        with pytest.raises(httpx.TransportError) as caught:
            await engine.handle_async_request(
                make_request(url, "PUT", transmission, content=late())
            )

    assert not transmission.sent
    assert isinstance(caught.value, httpx.ConnectError | httpx.ReadError)
    assert IDLE in repr(engine)


async def test_a_connection_that_ends_in_the_turn_of_the_first_piece_was_sent_nothing(
    engine: Engine,
) -> None:
    """Writing looks itself whether there is a connection: reading may tell a turn later."""
    transmission, server = Transmission(sent=False), Greedy()

    async def stream() -> AsyncIterator[bytes]:
        (connection,) = engine._pool._open
        connection.abort()
        yield b"x"

    async with raw_server(server.handle) as url:
        with pytest.raises(httpx.ConnectError):
            await engine.handle_async_request(
                make_request(url, "PUT", transmission, content=stream())
            )

    assert not transmission.sent
    assert not server.has_head.is_set()
    assert IDLE in repr(engine)


async def test_a_server_that_speaks_first_is_not_sent_to(engine: Engine) -> None:
    """What it says before it has a request is no reply to it."""
    transmission = Transmission(sent=False)
    spoken = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        spoken.set()
        await reader.read()

    async def late() -> AsyncIterator[bytes]:
        await spoken.wait()
        await turns(5)
        yield b"x"

    async with raw_server(handle) as url:
        with pytest.raises(httpx.ConnectError):
            await engine.handle_async_request(
                make_request(url, "PUT", transmission, content=late())
            )

    assert not transmission.sent
    assert IDLE in repr(engine)
