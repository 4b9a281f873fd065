"""A network that is silent: the system drops all that comes for one end of a connection."""

import asyncio
import ctypes
import socket
import struct
import sys
import time
from typing import Final

import pytest

from gateway_sdk import GatewaySession, Outcome, ReplyTimeoutError
from gateway_sdk._transport import connection
from tests.support.calls import CALLS
from tests.support.raw_server import Server, raw_server

ATTACH_FILTER: Final = 26  # of Linux' asm-generic/socket.h
DETACH_FILTER: Final = 27


def deafen(end: socket.socket) -> None:
    """Drop what comes before the system acknowledges it: by a filter that returns 0."""
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
    program = struct.pack("@HP", 1, ctypes.addressof(code))
    end.setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, program)


def hear(end: socket.socket) -> None:
    end.setsockopt(socket.SOL_SOCKET, DETACH_FILTER, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="filters of Linux")
@pytest.mark.parametrize("away", [2.0, None])
async def test_silence_ends_a_call_unless_the_peer_comes_back(
    monkeypatch: pytest.MonkeyPatch, away: float | None
) -> None:
    """In half of the time, as the system repeats what was sent after ever longer pauses."""
    monkeypatch.setattr(connection, "SILENCE", 5.0)  # of 24 s
    server = Server()
    async with (
        raw_server(server.handle) as url,
        GatewaySession(url, access_token="t", tenant_id="acme", timeout=20.0) as session,
    ):
        await CALLS["create_customer"](session)
        end = server.writers[0].get_extra_info("socket")
        deafen(end)
        began = time.monotonic()
        if away:
            asyncio.get_running_loop().call_later(away, hear, end)
            assert await CALLS["create_customer"](session) == {}
        else:
            with pytest.raises(ReplyTimeoutError, match="acknowledges nothing") as caught:
                await CALLS["create_customer"](session)
            assert caught.value.outcome is Outcome.UNKNOWN
            assert 4.9 <= time.monotonic() - began < 10.0
