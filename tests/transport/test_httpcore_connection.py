"""What the httpx engine does while it sends: it counts, and looks for the reply."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Final

import httpx
import pytest

from gateway_sdk._transport.connection import MOST_UNREAD
from gateway_sdk._transport.httpx_engine import HttpxEngine
from gateway_sdk._transport.transmission import Transmission
from tests.support.certificates import Authority
from tests.support.engines import PIECE, Greedy, Pieces, body_of, make_request
from tests.support.proxies import server_context, serving
from tests.support.raw_server import OK, raw_server, read_request

pytestmark = pytest.mark.httpx

REFUSAL: Final = b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}"
INTERIM: Final = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


@pytest.fixture
async def engine() -> AsyncIterator[HttpxEngine]:
    """Provide an engine with two slots, closed after the test."""
    made = HttpxEngine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    yield made
    await made.aclose()


def upload(
    url: str, pieces: AsyncIterator[bytes] | Pieces, transmission: Transmission, **short: float
) -> httpx.Request:
    """Make a request with content in chunks."""
    content = pieces.__aiter__()
    return make_request(url, "POST", transmission, content=content, **short)


@pytest.mark.parametrize("reply", [REFUSAL, INTERIM + REFUSAL], ids=["alone", "behind an interim"])
async def test_a_refusal_ends_the_sending(engine: HttpxEngine, reply: bytes) -> None:
    """The reply that comes before the upload was read is the answer, and its connection ends."""
    transmission, server = Transmission(sent=False), Greedy(reply)
    async with raw_server(server.handle) as url:
        response = await engine.handle_async_request(upload(url, Pieces(), transmission))
        assert response.status_code == 413
        assert transmission.sent
        assert transmission.status == 413
        assert await body_of(response) == b"{}"

    assert repr(engine) == "<HttpxEngine <Slots 0 of 2 taken, 0 waiting>, 0 idle>"


async def test_a_refusal_before_the_last_chunk_ends_the_connection(engine: HttpxEngine) -> None:
    """The end of the content is not sent any more, so no other request may follow there."""

    async def content() -> AsyncIterator[bytes]:
        yield bytes(2**24)  # more than both systems take, so the reply comes while it is sent

    transmission, server = Transmission(sent=False), Greedy(REFUSAL)
    async with raw_server(server.handle) as url:
        response = await engine.handle_async_request(upload(url, content(), transmission))
        assert await body_of(response) == b"{}"

        assert repr(engine) == "<HttpxEngine <Slots 0 of 2 taken, 0 waiting>, 0 idle>"


async def test_what_is_no_http_ends_the_sending(engine: HttpxEngine) -> None:
    """The reply is broken, and no more is sent."""
    transmission = Transmission(sent=False)
    async with raw_server(Greedy(b"220 SMTP\r\n\r\n").handle) as url:
        with pytest.raises(httpx.RemoteProtocolError):
            await engine.handle_async_request(upload(url, Pieces(), transmission))

    assert transmission.sent
    assert transmission.status is None


@pytest.mark.parametrize("reply", [OK, INTERIM], ids=["success", "interim"])
async def test_an_early_success_does_not_end_the_sending(engine: HttpxEngine, reply: bytes) -> None:
    """Nor does an interim reply: the server gets all of the content."""
    begun, done, received = asyncio.Event(), asyncio.Event(), 0

    async def content() -> AsyncIterator[bytes]:
        yield PIECE
        await begun.wait()
        for _ in range(40):
            yield PIECE
            await asyncio.sleep(0)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        begun.set()
        while (size := int(await reader.readline(), 16)) > 0:
            await reader.readexactly(size + 2)
            received += size
        await reader.readline()
        done.set()
        if reply is INTERIM:
            writer.write(OK)

    transmission = Transmission(sent=False)
    async with raw_server(script) as url:
        response = await engine.handle_async_request(upload(url, content(), transmission))
        assert await body_of(response) == b"{}"
        await done.wait()

    assert response.status_code == 200
    assert received == 41 * len(PIECE)


async def test_a_success_before_a_server_that_takes_no_more(engine: HttpxEngine) -> None:
    """When the time for a piece is over, the reply that is there is the answer."""
    transmission = Transmission(sent=False)
    async with raw_server(Greedy(OK).handle) as url:
        response = await engine.handle_async_request(
            upload(url, Pieces(), transmission, write=0.05)
        )
        assert transmission.status == 200
        assert await body_of(response) == b"{}"

    assert repr(engine).endswith("0 idle>")


async def test_a_server_that_takes_no_more(engine: HttpxEngine) -> None:
    """Without any reply it is the time for a piece that was too short."""
    transmission = Transmission(sent=False)
    async with raw_server(Greedy().handle) as url:
        with pytest.raises(httpx.WriteTimeout):
            await engine.handle_async_request(upload(url, Pieces(), transmission, write=0.05))

    assert transmission.sent


async def test_no_more_than_a_part_of_a_reply_is_kept_while_sending(engine: HttpxEngine) -> None:
    """The server has to wait with the rest of a long early reply."""
    body = bytes(8 * MOST_UNREAD)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    transmission = Transmission(sent=False)

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + body)
        while not (await reader.read(65536)).endswith(b"\r\n0\r\n\r\n"):
            pass
        await writer.drain()
        await reader.read()

    async def content() -> AsyncIterator[bytes]:
        for _ in range(200):
            yield PIECE
            await asyncio.sleep(0)

    async with raw_server(script) as url:
        response = await engine.handle_async_request(upload(url, content(), transmission))
        assert await body_of(response) == body


async def test_content_that_fails_before_its_first_piece_was_not_sent(engine: HttpxEngine) -> None:
    """The head leaves together with it."""

    async def content() -> AsyncIterator[bytes]:
        if not transmission.sent:
            raise MemoryError
        yield PIECE

    transmission = Transmission(sent=False)
    async with raw_server(Greedy().handle) as url:
        with pytest.raises(MemoryError):
            await engine.handle_async_request(upload(url, content(), transmission))

    assert not transmission.sent


async def test_content_that_cancels_its_caller_is_not_sent(engine: HttpxEngine) -> None:
    """What was cancelled before its first byte left never leaves."""

    async def content() -> AsyncIterator[bytes]:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        yield PIECE

    transmission, server = Transmission(sent=False), Greedy()
    async with raw_server(server.handle) as url:
        call = asyncio.create_task(
            engine.handle_async_request(upload(url, content(), transmission))
        )
        await asyncio.wait([call])

    assert call.cancelled()
    assert not transmission.sent
    assert server.received == 0


@pytest.mark.parametrize("how", ["closes", "excess", "speaks first"])
async def test_a_connection_that_is_used_up_before_the_first_byte(
    engine: HttpxEngine, how: str
) -> None:
    """What comes between choosing a connection and using it is seen: nothing was sent."""
    may_end = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if how != "speaks first":
            await read_request(reader)
            writer.write(OK)
        await may_end.wait()
        if how == "closes":
            writer.transport.abort()
        writer.write(OK)
        await reader.read()

    async def content() -> AsyncIterator[bytes]:
        (connection,) = engine._pool._open
        may_end.set()
        while not (connection.is_closing or connection._received):  # noqa: ASYNC110 - as it is
            await asyncio.sleep(0)
        yield PIECE

    transmission = Transmission(sent=False)
    async with raw_server(script) as url:
        if how != "speaks first":
            await body_of(await engine.handle_async_request(make_request(url)))
        with pytest.raises(httpx.ConnectError):
            await engine.handle_async_request(upload(url, content(), transmission))

    assert not transmission.sent


async def test_a_reply_that_ends_with_a_secure_connection_must_be_told_so(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Without TLS's own end somebody may have cut a reply that has no length (RFC 8446, 6.1)."""
    authority = Authority(tmp_path_factory.mktemp("certificates"), "trusted")
    engine = HttpxEngine(2, ssl.create_default_context(cafile=authority.path))

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf")
        await writer.drain()
        raw = writer.get_extra_info("socket")
        raw.shutdown(1)  # below TLS
        await reader.read()

    async with serving(script, server_context(authority, "127.0.0.1")) as port:
        response = await engine.handle_async_request(make_request(f"https://127.0.0.1:{port}"))
        with pytest.raises(httpx.ReadError):
            await body_of(response)
        await response.stream.aclose()  # type: ignore[union-attr]

    await engine.aclose()
