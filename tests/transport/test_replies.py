"""Replies of every form over the asyncio engine: whole, broken, and those that never end."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.engines import IDLE, Engine, body_of, make_request
from tests.support.raw_server import OK, raw_server, read_request


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """An engine with two slots, closed after the test."""
    made = Engine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    yield made
    await made.aclose()


BODY = b'{"a": 1}'
HEAD = b"HTTP/1.1 200 OK\r\n"
WHOLE: dict[str, tuple[bytes, bool]] = {
    "Content-Length": (HEAD + b"Content-Length: 8\r\n\r\n" + BODY, True),
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n8\r\n" + BODY + b"\r\n0\r\n\r\n", True),
    "to the connection's end": (HEAD + b"\r\n" + BODY, False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 8\r\n\r\n" + BODY, False),
    "HTTP/1.0 to its end": (b"HTTP/1.0 200 OK\r\n\r\n" + BODY, False),
    "1xx before it": (
        b"HTTP/1.1 102 Processing\r\n\r\n" * 3 + HEAD + b"Content-Length: 8\r\n\r\n" + BODY,
        True,
    ),
    "Connection: close": (HEAD + b"Connection: close\r\nContent-Length: 8\r\n\r\n" + BODY, False),
    "a field of 90 KB": (
        HEAD + b"X: " + b"x" * 90_000 + b"\r\nContent-Length: 8\r\n\r\n" + BODY,
        True,
    ),
    "900 fields": (HEAD + b"X: x\r\n" * 900 + b"Content-Length: 8\r\n\r\n" + BODY, True),
    "a reason of 90 KB": (
        b"HTTP/1.1 200 " + b"x" * 90_000 + b"\r\nContent-Length: 8\r\n\r\n" + BODY,
        True,
    ),
}


@pytest.mark.parametrize(("reply", "stays"), WHOLE.values(), ids=WHOLE)
async def test_a_reply_of_any_form_is_read(engine: Engine, reply: bytes, stays: bool) -> None:
    """Every framing of a body is understood, and says whether the connection may be used again."""
    connections = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(reply)
        if stays:
            await read_request(reader)
            writer.write(reply)
            await reader.read()
        else:
            writer.close()
            await writer.wait_closed()

    async with raw_server(handle) as url:
        for _ in range(2):
            response = await engine.handle_async_request(make_request(url))
            assert response.status_code == 200
            assert await body_of(response) == BODY

    assert connections == (1 if stays else 2)
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


BROKEN: dict[str, bytes] = {
    "a field of 200 KB": HEAD + b"X: " + b"x" * 200_000 + b"\r\n\r\n",
    "2000 fields": HEAD + b"X: x\r\n" * 2000 + b"\r\n",
    "a reason of 200 KB": b"HTTP/1.1 200 " + b"x" * 200_000 + b"\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "nothing": b"",
}


@pytest.mark.parametrize("reply", BROKEN.values(), ids=BROKEN)
async def test_a_reply_that_is_none(engine: Engine, reply: bytes) -> None:
    """What cannot be read, or is too long to be, is a reply that was lost."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(reply)
        await reader.read()

    async with raw_server(handle) as url:
        with pytest.raises(httpx.TransportError) as caught:
            await engine.handle_async_request(make_request(url, read=0.5))

    assert isinstance(caught.value, httpx.RemoteProtocolError if reply else httpx.ReadTimeout)
    assert IDLE in repr(engine)


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
