"""The files that a call goes through, from the method of the area to the socket and back."""

import asyncio
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import gateway_sdk
from gateway_sdk import GatewaySession
from tests.support.raw_server import OK, raw_server, read_request

ROOT = Path(gateway_sdk.__file__).parent
FILES = {
    "areas/wallet.py",
    "_call/call.py",
    "_call/deadline.py",
    "_call/shared_state.py",
    "_http/request.py",
    "_http/reply.py",
    "_transport/connection.py",
    "_transport/engine.py",
    "_transport/pool.py",
    "_transport/reply_reader.py",
}


class Followed:
    def __init__(self) -> None:
        self.files: set[str] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            self.files.add(path.relative_to(ROOT).as_posix())


async def test_a_call_goes_through_few_files() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(OK)

    followed = Followed()
    before = sys.getprofile()
    async with (
        raw_server(handle) as url,
        GatewaySession(url, access_token="t", tenant_id="acme") as gateway,
    ):
        await gateway.wallet.cancel_order("w-1", "o-1")  # opens the connection
        sys.setprofile(followed)
        try:
            await gateway.wallet.cancel_order("w-1", "o-1")
        finally:
            sys.setprofile(before)

    assert followed.files == FILES
    assert len(followed.files) == 10
