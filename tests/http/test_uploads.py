"""Uploads that go wrong: the truth about them, and nothing left open."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

import httpx
import pytest

from gateway_sdk import (
    Advice,
    ConflictError,
    DeadlineExceededError,
    GatewayError,
    GatewaySession,
    Outcome,
    Repeatability,
    ReplyLostError,
    UnauthorizedError,
    UploadFailedError,
)
from gateway_sdk._http import file
from gateway_sdk._http.pieces import PIECE
from tests.http.uploads.servers import taking
from tests.support.deadlines import pass_deadlines
from tests.support.raw_server import raw_server


def session(url: str) -> GatewaySession:
    return GatewaySession(url, access_token="token")


class Slow:
    """A server that takes in a head and nothing more, until it is told to hang up."""

    def __init__(self) -> None:
        self.received = asyncio.Event()
        self.may_hang_up = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        """Stop reading, so that the sender stands still."""
        await reader.readuntil(b"\r\n\r\n")
        self.received.set()
        await self.may_hang_up.wait()


async def drain(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Take in all that comes and never answer."""
    while await reader.read(PIECE):
        pass


ERRORS = [
    httpx.ConnectError("of another server"),
    httpx.PoolTimeout("of another client"),
    UnauthorizedError("of another call", status=401),
    ConflictError("of another call", status=409),
    UploadFailedError("of another call").of_call("upload_document", Repeatability.ONCE, ()),
    GatewayError("of another call"),
    TimeoutError("somebody's"),
    OSError("a disk"),
    ZeroDivisionError("a bug"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_what_a_stream_raises_is_not_taken_for_the_gateways_answer(error: Exception) -> None:
    """Bytes have left when the stream fails, so the outcome is unknown, whatever it raised."""

    async def stream() -> AsyncIterator[bytes]:
        yield bytes(PIECE)
        raise error

    async with raw_server(drain) as url, session(url) as gateway:
        with pytest.raises(UploadFailedError, match=type(error).__name__) as caught:
            await gateway.aml.upload_document(stream())

    assert caught.value.outcome is Outcome.UNKNOWN
    assert caught.value.advice is Advice.CHECK
    assert len(caught.value.attempts) == 1
    assert caught.value.__context__ is error
    assert str(error) not in str(caught.value)


async def test_a_progress_function_that_raises_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its error is logged each time, and the document arrives whole."""
    told: list[int] = []

    def fail(sent: int, _: int | None) -> None:
        told.append(sent)
        raise ZeroDivisionError

    async with taking() as (url, taker), session(url) as gateway:
        await gateway.aml.upload_document(bytes(2 * PIECE), on_progress=fail)

    assert told == [PIECE, 2 * PIECE]
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("gateway_sdk", "on_progress failed")
    ] * 2
    assert taker.uploads[0].body == bytes(2 * PIECE)


@pytest.mark.parametrize("way", ["deadline", "hang up", "cancel"])
async def test_a_stream_is_closed_wherever_its_sending_stopped(way: str) -> None:
    """The stream's `finally` has run when the error arrives, in the task that made the call."""
    closed_in: list[asyncio.Task[object] | None] = []
    server = Slow()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield bytes(PIECE)
        finally:
            closed_in.append(asyncio.current_task())

    async with raw_server(server.handle) as url:
        gateway = session(url)
        call = asyncio.create_task(gateway.aml.upload_document(endless()))
        await server.received.wait()
        if way == "deadline":
            pass_deadlines(gateway)
        elif way == "hang up":
            server.may_hang_up.set()
        else:
            call.cancel()
        await asyncio.wait([call])

        assert closed_in == [call]
        await gateway.aclose()
    if way == "deadline":
        assert isinstance(call.exception(), DeadlineExceededError)
    elif way == "hang up":
        assert isinstance(call.exception(), ReplyLostError)


async def test_a_file_is_never_waited_for_in_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A read that hangs, as on a dead disk, holds up neither the deadline nor the loop."""
    document = tmp_path / "document"
    document.write_bytes(bytes(PIECE))
    reading, go_on = threading.Event(), threading.Event()
    opened: list[BinaryIO] = []

    def hang(file: BinaryIO, _: memoryview) -> bytes:
        opened.append(file)
        reading.set()
        go_on.wait(10)
        return b""

    monkeypatch.setattr(file, "_read_into", hang)
    async with raw_server(drain) as url, session(url) as gateway:
        call = asyncio.create_task(gateway.aml.upload_document(document))
        assert await asyncio.to_thread(reading.wait, 10)
        pass_deadlines(gateway)
        with pytest.raises(DeadlineExceededError):
            await call
    assert not opened[0].closed

    go_on.set()
    for thread in threading.enumerate():
        if thread.name.startswith("gateway-upload"):
            await asyncio.to_thread(thread.join, 10)
    assert opened[0].closed


async def test_a_file_that_is_gone_when_it_is_sent(tmp_path: Path) -> None:
    """A file that vanishes between being measured and being sent ends the call."""
    document = tmp_path / "document"
    document.write_bytes(b"x")

    class Vanishing(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            document.unlink()
            await request.aread()
            raise AssertionError

    gateway = GatewaySession("https://g.test", access_token="t", transport=Vanishing())
    with pytest.raises(UploadFailedError, match="FileNotFoundError") as caught:
        await gateway.aml.upload_document(document)

    assert "document" not in str(caught.value).removeprefix("upload_document")
