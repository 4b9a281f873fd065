"""The bytes of requests on their way: what is given is sent, and the engine adds nothing to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from gateway_sdk import GatewaySession
from tests.support.raw_server import OK, raw_server, read_request

Use = Callable[[GatewaySession], Awaitable[object]]

COOKIE = OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: canary=1; Path=/\r\n\r\n")


async def received(use: Use, host: str = "127.0.0.1", **options: Any) -> list[bytes]:
    """Return what a server that sets cookies gets over one connection at a time."""
    requests: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            requests.append(await read_request(reader))
            if b"chunked" in requests[-1]:
                requests[-1] += await reader.readuntil(b"0\r\n\r\n")
            writer.write(COOKIE)

    async with (
        raw_server(handle) as url,
        GatewaySession(
            url.replace("127.0.0.1", host), access_token="t", tenant_id="acme", **options
        ) as gateway,
    ):
        await use(gateway)
    return requests


def names_of(request: bytes) -> list[bytes]:
    lines = request.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return [line.partition(b":")[0] for line in lines]


async def test_no_cookie_comes_back() -> None:
    """What a server sets is forgotten. Its name is one, for jars keep no cookies of numbers."""

    async def twice(gateway: GatewaySession) -> None:
        for _ in range(2):
            await gateway.wallet.order_history(1, 1)

    first, second = await received(twice, host="localhost")

    assert first == second
    assert b"canary" not in second


@pytest.mark.parametrize(
    ("pieces", "chunks"),
    [([b"", b"0123456789abcdef", b"", b"z"], b"10\r\n0123456789abcdef\r\n1\r\nz\r\n"), ([], b"")],
)
async def test_a_stream_is_sent_in_its_own_chunks(pieces: list[bytes], chunks: bytes) -> None:
    """Each piece is a chunk, an empty one is none, and nothing promises a length."""

    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    (request,) = await received(lambda to: to.aml.upload_document(stream()))

    head, _, body = request.partition(b"\r\n\r\n")
    assert body == chunks + b"0\r\n\r\n"
    assert head.endswith(b"\r\nTransfer-Encoding: chunked")
    assert b"Content-Length" not in names_of(request)
