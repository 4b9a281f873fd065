"""Content on its way over the asyncio engine: overtaken by its reply, or cut."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest

from gateway_sdk._transport.connection import MOST_UNREAD
from gateway_sdk._transport.transmission import Transmission
from tests.support.engines import CHUNK, IDLE, Engine, Greedy, Pieces, body_of, make_request
from tests.support.raw_server import OK, raw_server

LARGE = 20_000_000


EARLY = {
    "413 and closes": OK.replace(b"200 OK", b"413 -\r\nConnection: close"),
    "413": OK.replace(b"200 OK", b"413 -"),
}


@pytest.mark.parametrize("reply", EARLY.values(), ids=EARLY)
async def test_a_reply_that_overtakes_its_content_ends_it(engine: Engine, reply: bytes) -> None:
    """The reply counts, the rest is not sent, and the connection is used by nobody else."""
    pieces, server = Pieces(), Greedy(reply)
    async with raw_server(server.handle) as url:
        request = make_request(url, "POST", content=aiter(pieces))
        response = await engine.handle_async_request(request)
        assert await body_of(response) == b"{}"
        assert IDLE in repr(engine)
        assert response.status_code == int(reply.split()[1])
        given = pieces.given
        server.may_read.set()
        await server.ended.wait()
        assert await body_of(await engine.handle_async_request(make_request(url))) == b"{}"

    assert pieces.given == given
    assert server.connections == 2


@pytest.mark.parametrize("piece", [len(CHUNK), LARGE], ids=["in pieces", "in one"])
@pytest.mark.parametrize("how", ["cancelled", "closed in its reply"])
async def test_an_upload_that_is_given_up_is_cut(engine: Engine, how: str, piece: int) -> None:
    """What waits to be sent is thrown away: a server receives far less than all of it."""
    content, server = bytes(LARGE), Greedy(b"" if how == "cancelled" else EARLY["413"][:-2])
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
        assert IDLE in repr(engine)
        server.may_read.set()
        await server.ended.wait()

    assert transmission.sent
    assert server.received < LARGE / 2


async def test_a_server_that_does_not_read_ends_with_the_write_time_out(
    engine: Engine,
) -> None:
    """The time-out for writing is kept, and it is none of reading."""
    pieces, server = Pieces(), Greedy()
    async with raw_server(server.handle) as url:
        request = make_request(url, "PUT", content=aiter(pieces), write=0.05)
        with pytest.raises(httpx.WriteTimeout):
            await engine.handle_async_request(request)

    assert IDLE in repr(engine)


EARLY_SUCCESS = OK.replace(b"200 OK", b"202 -")


async def test_an_early_success_is_followed_by_the_rest_of_the_content(
    engine: Engine,
) -> None:
    """The server may want it; then the connection is used again."""
    received: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(EARLY_SUCCESS)
            received.append(len(await reader.readexactly(LARGE)))

    async with raw_server(handle) as url:
        for _ in range(2):
            transmission = Transmission(sent=False)
            request = make_request(url, "PUT", transmission, content=bytes(LARGE))
            response = await engine.handle_async_request(request)
            assert response.status_code == transmission.status == 202
            assert await body_of(response) == b"{}"
        await asyncio.sleep(0)

    assert "1 idle" in repr(engine)
    assert received[0] == LARGE


async def test_an_early_success_stands_when_the_server_takes_no_more(
    engine: Engine,
) -> None:
    """The time-out for writing ends the sending, and the reply is the answer."""
    pieces, server = Pieces(), Greedy(EARLY_SUCCESS)
    async with raw_server(server.handle) as url:
        request = make_request(url, "PUT", content=aiter(pieces), write=0.05)
        response = await engine.handle_async_request(request)
        assert response.status_code == 202
        assert await body_of(response) == b"{}"

    assert "0 of 2 slots taken, 0 waiting, 0 idle" in repr(engine)


async def test_a_server_may_hang_up_behind_its_early_success(engine: Engine) -> None:
    """It wants no more, and the reply is the answer."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(EARLY_SUCCESS)
        await writer.drain()
        writer.close()

    async with raw_server(handle) as url:
        response = await engine.handle_async_request(
            make_request(url, "PUT", content=aiter(Pieces()))
        )
        assert response.status_code == 202
        assert await body_of(response) == b"{}"

    assert "0 idle" in repr(engine)


async def test_a_large_early_success_takes_bounded_memory(engine: Engine) -> None:
    """What nobody has read yet makes the server wait."""
    size = 8 * 2**20

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(EARLY_SUCCESS.replace(b"2\r\n\r\n{}", b"%d\r\n\r\n" % size) + bytes(size))
        await asyncio.Event().wait()  # and reads nothing

    async with raw_server(handle) as url:
        request = make_request(url, "PUT", content=aiter(Pieces()), write=0.05)
        response = await engine.handle_async_request(request)
        stream = cast("Any", response.stream)
        assert stream._chunks.reply.buffered < 4 * MOST_UNREAD
        assert len(await body_of(response)) == size


@pytest.mark.parametrize(("given", "declared"), [(3, 2), (1, 2)])
async def test_content_of_another_length_is_an_error(
    engine: Engine, given: int, declared: int
) -> None:
    """What comes next on the connection would be taken for a part of it."""

    async def stream() -> AsyncIterator[bytes]:
        yield bytes(given)

    server = Greedy()
    async with raw_server(server.handle) as url:
        request = make_request(url, "PUT", content=stream())
        request.headers = httpx.Headers({"Host": "g.test", "Content-Length": f"{declared}"})
        with pytest.raises(httpx.LocalProtocolError, match="Content-Length"):
            await engine.handle_async_request(request)

    assert IDLE in repr(engine)


@pytest.mark.parametrize("value", ["a\r\nX: b", "a\rb", "a\0b"])
async def test_a_header_cannot_end_the_head(engine: Engine, value: str) -> None:
    """Nothing is sent of a request with a line break in a header."""
    transmission, server = Transmission(sent=False), Greedy()
    async with raw_server(server.handle) as url:
        request = make_request(url, "PUT", transmission)
        request.headers = httpx.Headers([(b"X", value.encode())])
        with pytest.raises(httpx.LocalProtocolError):
            await engine.handle_async_request(request)

    assert not transmission.sent
    assert not server.connections
