"""Content that fails, is empty, late or slow to clean up, over the asyncio engine."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway_sdk import DeadlineExceededError, GatewaySession, Outcome, UploadFailedError
from gateway_sdk._transport.transmission import Transmission
from tests.support.engines import IDLE, Engine, Greedy, body_of, make_request
from tests.support.failing_steps import turns
from tests.support.raw_server import OK, raw_server


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """An engine with two slots, closed after the test."""
    made = Engine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    yield made
    await made.aclose()


@pytest.mark.parametrize("after", [0, 1, 3])
async def test_the_error_of_a_content_is_the_errors_own(engine: Engine, after: int) -> None:
    """It comes up as it is, with what it hides; before the first piece nothing was sent."""
    transmission, bug = Transmission(sent=False), ZeroDivisionError("bug")
    server = Greedy()

    async def broken() -> AsyncIterator[bytes]:
        for _ in range(after):
            yield b"x"
        try:
            raise bug
        except ZeroDivisionError:
            raise UploadFailedError("of the content") from None

    async with raw_server(server.handle) as url:
        with pytest.raises(UploadFailedError, match="of the content") as caught:
            await engine.handle_async_request(
                make_request(url, "PUT", transmission, content=broken())
            )
        server.may_read.set()

    assert caught.value.__context__ is bug
    assert transmission.sent == bool(after)
    assert IDLE in repr(engine)


@pytest.mark.parametrize("length", ["0", None])
async def test_an_empty_content_is_sent(engine: Engine, length: str | None) -> None:
    """With a length of 0 and without any, and the content was asked."""
    asked: list[bool] = []
    received: list[bytes] = []

    class Empty(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            asked.append(True)
            for piece in list[bytes]():
                yield piece

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.readuntil(b"\r\n\r\n" if length else b"0\r\n\r\n"))
        writer.write(OK)
        await reader.read()

    transmission = Transmission(sent=False)
    async with raw_server(handle) as url:
        request = make_request(url, "PUT", transmission)
        request.stream = Empty()
        framing = ("Content-Length", length) if length else ("Transfer-Encoding", "chunked")
        request.headers = httpx.Headers([("Host", "g.test"), framing])
        assert await body_of(await engine.handle_async_request(request)) == b"{}"

    assert asked == [True]
    assert transmission.sent
    assert len(received) == 1


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


async def test_a_deadline_in_the_first_piece_was_sent_nothing() -> None:
    """A session says so of a stream that does not come, and it may be called again."""

    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    server = Greedy()
    async with (
        raw_server(server.handle) as url,
        GatewaySession(url, access_token="t", deadline=0.1) as gateway,
    ):
        with pytest.raises(DeadlineExceededError) as caught:
            await gateway.aml.upload_document(never())

    assert caught.value.outcome is Outcome.NOT_SENT
    assert not server.has_head.is_set()
