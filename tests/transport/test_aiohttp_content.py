"""Content on its way over the aiohttp engine: overtaken by its reply, or cut."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway_sdk._transport.aiohttp_engine import AiohttpEngine
from gateway_sdk._transport.transmission import Transmission
from tests.support.engines import IDLE, PIECE, Greedy, Pieces, body_of, make_request
from tests.support.raw_server import OK, raw_server

LARGE = 20_000_000


@pytest.fixture
async def engine() -> AsyncIterator[AiohttpEngine]:
    """An engine with two slots, closed after the test."""
    made = AiohttpEngine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    yield made
    await made.aclose()


EARLY = {
    "413 and closes": OK.replace(b"200 OK", b"413 -\r\nConnection: close"),
    "413": OK.replace(b"200 OK", b"413 -"),
    "200": OK,
}


@pytest.mark.parametrize("reply", EARLY.values(), ids=EARLY)
async def test_a_reply_that_overtakes_its_content_ends_it(
    engine: AiohttpEngine, reply: bytes
) -> None:
    """The reply counts, the rest is not sent, and the connection is used by nobody else."""
    pieces, server = Pieces(), Greedy(reply)
    async with raw_server(server.handle) as url:
        request = make_request(url, "POST", content=aiter(pieces))
        response = await engine.handle_async_request(request)
        assert await body_of(response) == b"{}"
        assert repr(engine) == IDLE
        assert response.status_code == int(reply.split()[1])
        given = pieces.given
        server.may_read.set()
        await server.ended.wait()
        assert await body_of(await engine.handle_async_request(make_request(url))) == b"{}"

    assert pieces.given == given
    assert server.connections == 2
    assert not [task for task in asyncio.all_tasks() if "write_bytes" in repr(task)]


@pytest.mark.parametrize("piece", [len(PIECE), LARGE], ids=["in pieces", "in one"])
@pytest.mark.parametrize("how", ["cancelled", "closed in its reply"])
async def test_an_upload_that_is_given_up_is_cut(
    engine: AiohttpEngine, how: str, piece: int
) -> None:
    """What waits to be sent is thrown away: a server receives far less than all of it."""
    content, server = bytes(LARGE), Greedy(b"" if how == "cancelled" else OK[:-2])
    transmission = Transmission(sent=False)

    async def stream() -> AsyncIterator[bytes]:
        for start in range(0, LARGE, piece):
            yield content[start : start + piece]

    async with raw_server(server.handle) as url:
        request = make_request(url, "PUT", transmission, content=stream())
        call = asyncio.create_task(engine.handle_async_request(request))
        await server.has_head.wait()
        if how == "cancelled":
            call.cancel()
            await asyncio.wait([call])
        else:
            await (await call).aclose()
        assert repr(engine) == IDLE
        server.may_read.set()
        await server.ended.wait()

    assert transmission.sent
    assert server.received < LARGE / 2


async def test_a_server_that_does_not_read_ends_with_the_write_time_out(
    engine: AiohttpEngine,
) -> None:
    """The time-out for writing is kept, and it is none of reading."""
    pieces, server = Pieces(), Greedy()
    async with raw_server(server.handle) as url:
        request = make_request(url, "PUT", content=aiter(pieces), write=0.05)
        with pytest.raises(httpx.WriteTimeout):
            await engine.handle_async_request(request)

    assert repr(engine) == IDLE


async def test_a_server_that_hangs_up_while_it_is_sent_to(engine: AiohttpEngine) -> None:
    """The connection's end is told, whether reading or writing met it first."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    transmission = Transmission(sent=False)
    async with raw_server(hang_up) as url:
        request = make_request(url, "PUT", transmission, content=aiter(Pieces()))
        with pytest.raises((httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)):
            await engine.handle_async_request(request)

    assert transmission.sent
    assert repr(engine) == IDLE
