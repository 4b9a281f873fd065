"""Transports of the user's own, which may do with a body what no engine of ours does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from gateway_sdk import (
    ConflictError,
    GatewaySession,
    InvalidArgumentError,
    Multipart,
    Outcome,
    UploadFailedError,
)
from gateway_sdk._content import files as body_file
from gateway_sdk._content.files import CHUNK
from tests.http.uploads.kinds import LARGE
from tests.http.uploads.servers import written
from tests.support.scripted import scripted


async def stream(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


class Repeating(httpx.AsyncBaseTransport):
    """Sends everything twice, as transports do that have retries of their own."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for _ in range(2):
            body = cast("httpx.AsyncByteStream", request.stream)
            self.bodies.append(b"".join([piece async for piece in body]))
        return httpx.Response(200, json={})


async def test_a_stream_that_is_sent_again_is_an_error_and_no_empty_document() -> None:
    """A transport that repeats by itself would else replace the document by nothing."""
    transport = Repeating()
    gateway = GatewaySession("https://g.test", access_token="t", transport=transport)

    with pytest.raises(UploadFailedError, match="cannot be sent again") as caught:
        await gateway.aml.upload_document(stream(b"scan"))
    await gateway.aml.upload_document(b"scan")

    assert caught.value.outcome is Outcome.UNKNOWN
    assert transport.bodies == [b"scan", b"scan", b"scan"]


class Early(httpx.AsyncBaseTransport):
    """Answers while a task of its own still waits for the body."""

    def __init__(self) -> None:
        self.sending: asyncio.Task[Any] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = aiter(cast("httpx.AsyncByteStream", request.stream))
        await anext(body)
        self.sending = asyncio.create_task(cast("Any", anext(body)))
        await asyncio.sleep(0)
        return httpx.Response(409)


async def test_an_answer_counts_though_the_body_is_still_being_read() -> None:
    """A body that another task reads cannot be closed, and its answer is the truth all the same."""
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            closed.set()

    transport = Early()
    gateway = GatewaySession("https://g.test", access_token="t", transport=transport)
    with pytest.raises(ConflictError):
        await gateway.aml.upload_document(endless())

    assert transport.sending is not None
    assert not closed.is_set()
    transport.sending.cancel()
    with suppress(asyncio.CancelledError):
        await transport.sending
    assert closed.is_set()


@pytest.mark.parametrize("form", [False, True], ids=["alone", "in a form"])
@pytest.mark.parametrize("most", [1000, CHUNK + 1])
async def test_a_document_is_whole_however_short_the_reads_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, most: int, form: bool
) -> None:
    """A system may give less than it was asked for."""
    read = body_file._read_some
    monkeypatch.setattr(body_file, "_read_some", lambda file, size: read(file, min(size, most)))
    content = LARGE[: 300 * most]
    path = written(tmp_path, "scan", content)
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(200))

    await gateway.aml.upload_document(Multipart({}, {"front": [path, path]}) if form else path)

    assert engine.bodies[0].count(content) == 1 + form
    assert form or engine.bodies == [content]


async def _tell(*_: object) -> None:
    raise AssertionError


@pytest.mark.parametrize("tell", [_tell, partial(_tell, 1)])
async def test_progress_is_told_to_a_plain_function(
    monkeypatch: pytest.MonkeyPatch, tell: Callable[..., Any]
) -> None:
    """A coroutine function would be called and never awaited: it is refused."""
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(200))
    with pytest.raises(InvalidArgumentError, match="on_progress must be a plain function"):
        await gateway.aml.upload_document(b"scan", on_progress=tell)

    assert not engine.requests
