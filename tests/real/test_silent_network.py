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
from tests.support.calls import CALLS
from tests.support.raw_server import Server, raw_server

ATTACH_FILTER: Final = 26  # of Linux' asm-generic/socket.h


def deafen(writer: asyncio.StreamWriter) -> None:
    """Drop what comes before the system acknowledges it: by a filter that returns 0."""
    code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))
    program = struct.pack("@HP", 1, ctypes.addressof(code))
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, ATTACH_FILTER, program)


@pytest.mark.skipif(sys.platform != "linux", reason="filters of Linux")
async def test_what_is_sent_into_it_ends_before_its_time() -> None:
    server = Server()
    async with (
        raw_server(server.handle) as url,
        GatewaySession(url, access_token="t", tenant_id="acme", timeout=9.0) as session,
    ):
        await CALLS["create_customer"](session)
        deafen(server.writers[0])
        began = time.monotonic()
        with pytest.raises(ReplyTimeoutError, match="acknowledges nothing") as caught:
            await CALLS["create_customer"](session)

    assert caught.value.outcome is Outcome.UNKNOWN
    assert 5.9 <= time.monotonic() - began < 9.0
