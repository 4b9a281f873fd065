"""Why there is a gate: what cancellation does to httpx's own pool, and what it does to ours."""

import asyncio
import ssl
from typing import Final, cast

import httpx
import pytest

from gateway_sdk import GatewayTransport
from tests.support.failing_server import FailingServer
from tests.support.failing_steps import serve, turns

SIZE: Final = 3
CONTEXT: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def request(url: str, *, pool: float = 30.0) -> httpx.Request:
    return httpx.Request(
        "GET", url, extensions={"timeout": httpx.Timeout(30.0, pool=pool).as_dict()}
    )


async def close(response: httpx.Response) -> None:
    """Close a reply that was not read, which costs its connection."""
    await cast("httpx.AsyncByteStream", response.stream).aclose()


async def cancel_at_the_handover(transport: httpx.AsyncBaseTransport, url: str) -> None:
    """Take every slot and give it back to a waiting request that is cancelled in the same turn."""
    held = [await transport.handle_async_request(request(url)) for _ in range(SIZE)]
    for response in held:
        waiting = asyncio.create_task(transport.handle_async_request(request(url)))
        await turns(5)
        await close(response)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()


@pytest.mark.asyncio_loop
async def test_a_slot_survives_whoever_is_cancelled_with_it() -> None:
    """After any number of cancelled handovers, all slots can be used at the same time."""
    transport = GatewayTransport(max_connections=SIZE, verify=CONTEXT, trust_env=False)
    async with FailingServer(serve) as server:
        for _ in range(3):
            await cancel_at_the_handover(transport, server.url)
        held = [
            await transport.handle_async_request(request(server.url, pool=0.1)) for _ in range(SIZE)
        ]
        for response in held:
            await close(response)
        await transport.aclose()


async def test_httpx_loses_such_slots() -> None:
    """In httpx's own pool each of them is lost for good (encode/httpcore#1093).

    If this fails with a newer httpx, the gate in front of our connections may have had its day.
    """
    transport = httpx.AsyncHTTPTransport(
        verify=CONTEXT, limits=httpx.Limits(max_connections=SIZE), trust_env=False
    )
    async with FailingServer(serve) as server:
        await cancel_at_the_handover(transport, server.url)
        with pytest.raises(httpx.PoolTimeout):
            await transport.handle_async_request(request(server.url, pool=0.1))
        await transport.aclose()
