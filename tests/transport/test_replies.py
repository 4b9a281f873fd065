"""Replies of every form over the engine: whole, broken, and those that never end."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx
import pytest

from tests.support.engines import IDLE, Engine, body_of, make_request
from tests.support.raw_replies import BOTH, DIFFERENT, Seen
from tests.support.raw_server import OK, raw_server, read_request


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """An engine with two slots, closed after the test."""
    made = Engine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    yield made
    await made.aclose()


BODY = b'{"a": 1}'
HEAD = b"HTTP/1.1 200 OK\r\n"
REPLIES = {
    **BOTH,
    **{name: (data, seen) for name, (data, seen, _) in DIFFERENT.items()},
}


async def read(engine: Engine, url: str) -> tuple[int, bytes]:
    """Make a request, and return the status and the body of its reply."""
    response = await engine.handle_async_request(make_request(url))
    async with aclosing(response):
        return response.status_code, await body_of(response)


@pytest.mark.parametrize(("reply", "seen"), REPLIES.values(), ids=REPLIES)
async def test_a_reply_of_any_form(engine: Engine, reply: bytes, seen: Seen) -> None:
    """It is read, or lost with a reason; and it says whether the connection may be used again."""
    connections = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await read_request(reader):
            writer.write(reply)
            if not seen.again:
                writer.write_eof()

    async with raw_server(handle) as url:
        for _ in range(2):
            if seen.whole:
                assert await read(engine, url) == (seen.status, seen.body)
            else:
                with pytest.raises(httpx.RemoteProtocolError, match=r"\w"):
                    await read(engine, url)

    assert connections == (1 if seen.again else 2)
    assert IDLE in repr(engine)


async def test_a_compressed_body_is_handed_over_as_it_came(engine: Engine) -> None:
    """Who decompresses it bounds how large it becomes, which an engine does not."""
    packed = gzip.compress(BODY)
    head = f"Content-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n".encode()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + head + packed)
        await reader.read()

    async with raw_server(handle) as url:
        assert await body_of(await engine.handle_async_request(make_request(url))) == packed


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_no_redirect_is_followed(engine: Engine, status: int) -> None:
    """Who is sent elsewhere decides that himself."""
    requests: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            requests.append(await read_request(reader))
            writer.write(OK.replace(b"200 OK", b"%d -\r\nLocation: /other" % status))

    async with raw_server(handle) as url:
        response = await engine.handle_async_request(make_request(url, "DELETE"))
        await body_of(response)

    assert response.status_code == status
    assert len(requests) == 1


async def test_a_server_that_changes_its_protocol_keeps_no_connection(
    engine: Engine,
) -> None:
    """After 101 nobody would understand what comes: the connection is cut."""
    cut = asyncio.Event()

    async def switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 101 -\r\nUpgrade: other\r\nConnection: upgrade\r\n\r\n")
        assert not await reader.read()
        cut.set()

    async with raw_server(switch) as url:
        with pytest.raises(httpx.RemoteProtocolError, match="another protocol"):
            await engine.handle_async_request(make_request(url))
        await cut.wait()

    assert IDLE in repr(engine)


@pytest.mark.parametrize(
    ("reply", "body"),
    [(b"", None), (HEAD + b"Content-Length: 9\r\n\r\n{", b"{")],
    ids=["head", "body"],
)
async def test_a_silence_ends_with_the_read_time_out(
    engine: Engine, reply: bytes, body: bytes | None
) -> None:
    """In the head and in the body alike; the connection is cut."""
    cut = asyncio.Event()

    async def fall_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(reply)
        await reader.read()
        cut.set()

    async with raw_server(fall_silent) as url:
        if body is None:
            with pytest.raises(httpx.ReadTimeout):
                await engine.handle_async_request(make_request(url, read=0.05))
        else:
            response = await engine.handle_async_request(make_request(url, read=0.3))
            with pytest.raises(httpx.ReadTimeout) as caught:
                await body_of(response)
            assert caught.value.__cause__ is None  # whose text may show what came
            await response.aclose()
        await cut.wait()

    assert IDLE in repr(engine)


async def test_a_reply_that_did_not_come_whole_costs_its_connection(engine: Engine) -> None:
    """What is left of a reply is cut off, and its slot is free at once."""
    cut = asyncio.Event()

    async def never_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK.replace(b"2\r\n\r\n{}", b"9\r\n\r\n{"))
        assert not await reader.read()
        cut.set()

    async with raw_server(never_end) as url:
        response = await engine.handle_async_request(make_request(url))
        await response.aclose()
        assert IDLE in repr(engine)
        await cut.wait()
