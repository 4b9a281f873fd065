"""The bytes of requests on their way: what is given is sent, and the engine adds nothing to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from gateway_sdk import GatewaySession, GatewayTransport
from tests.support.raw_server import OK, raw_server, read_request

Use = Callable[[GatewaySession], Awaitable[object]]

COOKIE = OK.replace(b"\r\n\r\n", b"\r\nSet-Cookie: canary=1; Path=/\r\n\r\n")


async def received(
    use: Use, path: str = "", host: str = "127.0.0.1", **options: Any
) -> list[bytes]:
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
            url.replace("127.0.0.1", host) + path,
            access_token="t",
            tenant_id="acme",
            **options,
        ) as gateway,
    ):
        await use(gateway)
    return requests


def target_of(request: bytes) -> bytes:
    return request.split(b" ", 2)[1]


def names_of(request: bytes) -> list[bytes]:
    lines = request.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    return [line.partition(b":")[0] for line in lines]


@pytest.mark.parametrize(
    ("path", "wallet", "target"),
    [
        ("", "%2E%2E", "/wallet/1.0.0/%252E%252E/orders/o"),
        ("", "a.b~c-d_e", "/wallet/1.0.0/a.b~c-d_e/orders/o"),
        ("", "%41", "/wallet/1.0.0/%2541/orders/o"),
        (
            "",
            "a;b=c,d!$&'()*+:@",
            "/wallet/1.0.0/a%3Bb%3Dc%2Cd%21%24%26%27%28%29%2A%2B%3A%40/orders/o",
        ),
        ("", "é/?#", "/wallet/1.0.0/%C3%A9%2F%3F%23/orders/o"),
        ("/%2E%2E", "w", "/%2E%2E/wallet/1.0.0/w/orders/o"),
        ("/a%2Fb/%7Ec", "w", "/a%2Fb/%7Ec/wallet/1.0.0/w/orders/o"),
        ("/%c3%a9", "w", "/%c3%a9/wallet/1.0.0/w/orders/o"),
        ("/a//b", "w", "/a//b/wallet/1.0.0/w/orders/o"),
    ],
)
async def test_a_target_is_sent_as_it_was_made(path: str, wallet: str, target: str) -> None:
    """Nothing decodes, encodes, normalises or resolves anything in a path."""
    (request,) = await received(lambda to: to.wallet.cancel_order(wallet, "o"), path)

    assert target_of(request) == target.encode()


async def test_no_cookie_comes_back() -> None:
    """What a server sets is forgotten. Its name is one, for jars keep no cookies of numbers."""

    async def twice(gateway: GatewaySession) -> None:
        for _ in range(2):
            await gateway.wallet.order_history(1, 1)

    first, second = await received(twice, host="localhost")

    assert first == second
    assert b"canary" not in second


async def test_a_stream_is_sent_in_its_own_chunks() -> None:
    """Each piece is a chunk, an empty one is none, and nothing promises a length."""

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"", b"0123456789abcdef", b"", b"z"):
            yield piece

    (request,) = await received(lambda to: to.aml.upload_document(pieces()))

    head, _, body = request.partition(b"\r\n\r\n")
    assert body == b"10\r\n0123456789abcdef\r\n1\r\nz\r\n0\r\n\r\n"
    assert head.endswith(b"\r\nTransfer-Encoding: chunked")
    assert b"Content-Length" not in names_of(request)


async def test_an_empty_stream_is_sent_as_one() -> None:
    """A stream without pieces is the last chunk alone."""

    async def nothing() -> AsyncIterator[bytes]:
        for piece in list[bytes]():
            yield piece

    (request,) = await received(lambda to: to.aml.upload_document(nothing()))

    assert request.endswith(b"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")


async def test_what_has_no_body_promises_none() -> None:
    """A DELETE and a GET have no length; a POST says that it is 0."""

    async def all_kinds(gateway: GatewaySession) -> None:
        await gateway.wallet.cancel_order("w", "o")
        await gateway.wallet.trading_order_history("c")
        await gateway.kyc.send_webhook()
        await gateway.aml.upload_document(b"")

    requests = await received(all_kinds)

    lengths = [b"Content-Length: 0" in request.split(b"\r\n") for request in requests]
    assert lengths == [False, False, True, True]
    assert [b"Content-Length" in names_of(request) for request in requests] == lengths


@pytest.mark.parametrize("text", ["x", "a  b", "tab\there", '"quoted", \\ and more', "x" * 5000])
async def test_a_value_is_sent_as_it_is(text: str) -> None:
    """The values of headers of the user's are neither stripped nor folded within."""
    (request,) = await received(lambda to: to.wallet.order_history(1, 1), headers={"X-oWN": text})

    assert f"X-oWN: {text}".encode() in request.split(b"\r\n")


async def test_a_value_outside_of_ascii_goes_out_as_latin_1() -> None:
    """As httpx encodes it."""
    (request,) = await received(lambda to: to.wallet.order_history(1, 1), headers={"X-Own": "é"})

    assert "X-Own: é".encode("latin-1") in request.split(b"\r\n")


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
async def test_nothing_adds_a_header(method: str) -> None:
    """A request goes out with the headers that it was given, and with no other."""
    heads: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await read_request(reader))
        writer.write(OK)

    async with raw_server(handle) as url:
        request = httpx.Request(
            method,
            url,
            headers=[("Host", "gateway.test"), ("x-ONE", "1")],
            stream=httpx.ByteStream(b""),
        )
        async with GatewayTransport() as transport:
            response = await transport.handle_async_request(request)
            await response.aread()

    assert heads == [f"{method} / HTTP/1.1\r\nHost: gateway.test\r\nx-ONE: 1\r\n\r\n".encode()]
