"""Which connections are used again after a refusal, and what waits for none."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from gateway_sdk import GatewaySession, NotFoundError, Outcome, UploadFailedError
from tests.support.raw_server import OK, raw_server, read_request

SIZES = [60_000, 150_000, 300_000, 2_000_000]


class Counting:
    """Answers each request with the next reply, and counts connections."""

    def __init__(self, reply: Callable[[bytes], bytes]) -> None:
        self.connections = 0
        self._reply = reply

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            writer.write(self._reply(await read_request(reader)))


class Renewing:
    async def token(self, rejected: object = None) -> str:
        return "new" if rejected else "old"


@pytest.mark.parametrize("size", SIZES)
async def test_an_upload_after_a_refusal_has_a_connection_of_its_own(size: int) -> None:
    """Servers refuse before they have read an upload, and close the connection a moment later."""
    server = Counting(
        lambda request: OK if b"Bearer new" in request else OK.replace(b"200", b"401")
    )

    async with (
        raw_server(server) as url,
        GatewaySession(url, access_token=Renewing(), retry=None) as gateway,
    ):
        assert await gateway.aml.upload_document(bytes(size)) == {}

    assert server.connections == (1 if size < 2**16 else 2)


async def test_a_small_call_that_is_refused_costs_no_connection() -> None:
    """What left in one write was read: 60 times 404 need no second TLS handshake."""
    server = Counting(lambda _: OK.replace(b"200", b"404"))

    async with (
        raw_server(server) as url,
        GatewaySession(url, access_token="t", tenant_id="acme") as gateway,
    ):
        for number in range(60):
            with pytest.raises(NotFoundError):
                await gateway.customer.revise_customer("c-1", {"name": str(number)})

    assert server.connections == 1


async def test_no_connection_waits_for_the_first_piece_of_a_stream() -> None:
    """A server closes a connection that is silent for too long, and the stream would be lost."""
    server = Counting(lambda _: OK)
    connections: list[int] = []

    async def stream() -> AsyncIterator[bytes]:
        connections.append(server.connections)
        yield b"first"
        await asyncio.sleep(0)
        yield b"second"

    async with raw_server(server) as url, GatewaySession(url, access_token="t") as gateway:
        await gateway.aml.upload_document(stream())

    assert connections == [0]


@pytest.mark.parametrize("first", [True, False])
async def test_a_stream_that_is_never_sent_is_closed(first: bool) -> None:
    """There was no connection, so that it could have been sent again; or it failed at once."""
    closed: list[None] = []

    async def stream() -> AsyncIterator[bytes]:
        try:
            if not first:
                raise LookupError
            yield b"first"
            yield b"second"
        finally:
            closed.append(None)

    gateway = GatewaySession("http://127.0.0.1:1", access_token="t", retry=None)
    async with gateway:
        with pytest.raises(Exception, match=r"refused|LookupError") as caught:
            await gateway.aml.upload_document(stream())

    error: Any = caught.value
    assert error.outcome is Outcome.NOT_SENT
    assert closed == [None]


async def test_a_system_without_a_thread_to_spare_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """A session opens without one; a file cannot be read, and nothing was sent."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    document = tmp_path / "document"
    document.write_bytes(bytes(100_000))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        async with GatewaySession("https://127.0.0.1:1", access_token="t", retry=None) as gateway:
            with pytest.raises(UploadFailedError, match="no thread can be started") as caught:
                await gateway.aml.upload_document(document)

    assert caught.value.outcome is Outcome.NOT_SENT
