"""A call to a served sandbox takes as long as its work does."""

import asyncio
import socket
from typing import Any

import httpx
import pytest

from gateway_sdk.sandbox import Sandbox, _server


async def test_a_reply_does_not_wait_for_an_acknowledgement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Head and body are sent one after the other; neither may wait for the client's system."""
    made, options = _server._Protocol.connection_made, list[int]()

    def note(protocol: Any, transport: asyncio.Transport) -> None:
        made(protocol, transport)
        accepted = transport.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(_server._Protocol, "connection_made", note)
    async with Sandbox().serve() as base_url, httpx.AsyncClient(trust_env=False) as client:
        await client.get(base_url)

    assert options
    assert all(options)
