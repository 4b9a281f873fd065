"""What documents are sent as: bytes, text, JSON, files, streams; in pieces, with progress."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from pydantic import BaseModel, SecretBytes, SecretStr

from gateway_sdk import (
    Advice,
    ConflictError,
    GatewayError,
    GatewaySession,
    InvalidArgumentError,
    Multipart,
    Outcome,
    Repeatability,
    UnauthorizedError,
    UploadFailedError,
)
from gateway_sdk._content import files
from gateway_sdk._content.files import CHUNK
from tests.http.uploads.kinds import LARGE
from tests.http.uploads.servers import taking, written
from tests.support.scripted import scripted
from tests.support.secrecy import texts_of

DONE = httpx.Response(200, json={})


async def stream(*pieces: Any) -> AsyncIterator[Any]:
    for piece in pieces:
        yield piece


def over(transport: httpx.AsyncBaseTransport) -> GatewaySession:
    return GatewaySession("https://g.test", access_token="t", transport=transport)


class Login(BaseModel):
    """A model of the user's own with secrets."""

    password: SecretStr | None = None
    key: SecretBytes | None = None
    note: str = ""


@pytest.mark.parametrize(
    "secret", [{"password": SecretStr("canary")}, {"key": SecretBytes(b"canary")}]
)
@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: {"logins": [model]}])
async def test_a_masked_secret_of_the_users_model_is_never_sent(
    monkeypatch: pytest.MonkeyPatch, secret: dict[str, Any], wrap: Callable[[Login], Any]
) -> None:
    """The gateway would store the mask as the secret, and answer that all is well."""
    gateway, engine, _ = scripted(monkeypatch, DONE)

    with pytest.raises(InvalidArgumentError, match="content holds a secret in Login"):
        await gateway.aml.upload_document(wrap(Login(**secret)))

    assert engine.bodies == []


async def test_a_model_without_its_secret_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stars within a text are no mask."""
    gateway, engine, _ = scripted(monkeypatch, DONE)

    await gateway.aml.upload_document(Login(note='a "**********" b'))

    assert engine.bodies == [b'{"password":null,"key":null,"note":"a \\"**********\\" b"}']


class Measuring(httpx.AsyncBaseTransport):
    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = cast("httpx.AsyncByteStream", request.stream)
        self.sizes += [len(piece) async for piece in body]
        return DONE


@pytest.mark.parametrize("kind", ["bytes", "file"])
async def test_a_long_document_is_sent_in_pieces(tmp_path: Path, kind: str) -> None:
    """Progress is told, and a cancellation seen, between two of them."""
    sizes = [CHUNK, CHUNK, 5]
    content, path, transport = bytes(sum(sizes)), tmp_path / "document", Measuring()
    path.write_bytes(content)
    gateway = over(transport)

    await gateway.aml.upload_document(content if kind == "bytes" else path)

    assert transport.sizes == sizes


@pytest.mark.parametrize("kind", ["bytes", "stream"])
async def test_content_that_never_waits_leaves_turns_to_others(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """After each MiB the event loop has a turn, however fast the content is taken."""
    mib = bytes(2**20)
    told = list[int]()
    seen = list[int]()

    async def look() -> None:
        while True:
            seen.append(len(told))
            await asyncio.sleep(0)

    gateway, _, _ = scripted(monkeypatch, DONE)
    looking = asyncio.create_task(look())
    content = mib * 4 if kind == "bytes" else stream(*[mib] * 4)
    await gateway.aml.upload_document(content, on_progress=lambda sent, _: told.append(sent))
    looking.cancel()

    pieces = len(mib) // CHUNK
    assert {number * pieces for number in range(1, 5)} <= set(seen)


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
    asyncio.CancelledError("of something that it waited for"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_what_a_stream_raises_is_not_taken_for_the_gateways_answer(
    error: BaseException,
) -> None:
    """Bytes have left when the stream fails, so the outcome is unknown, whatever it raised."""

    async def failing() -> AsyncIterator[bytes]:
        yield bytes(CHUNK)
        raise error

    async with taking() as (url, _), GatewaySession(url, access_token="t") as gateway:
        with pytest.raises(UploadFailedError, match=type(error).__name__) as caught:
            await gateway.aml.upload_document(failing())

    assert caught.value.outcome is Outcome.UNKNOWN
    assert caught.value.advice is Advice.CHECK
    assert len(caught.value.attempts) == 1
    assert caught.value.__context__ is error
    assert str(error) not in texts_of(caught.value)


async def test_an_error_that_two_streams_raise_is_written_to_by_neither_call() -> None:
    busy = UploadFailedError("the scanner is busy")
    busy.advice = Advice.REPEAT

    async def failing() -> AsyncIterator[bytes]:
        for error in [busy]:
            raise error
        yield b""

    async with GatewaySession("https://gateway.test", access_token="t") as gateway:
        for _ in range(2):
            with pytest.raises(UploadFailedError, match="scanner is busy") as caught:
                await gateway.aml.upload_document(failing())
            assert caught.value.advice is Advice.REPEAT
    assert busy.operation is None


ONCE = "on_progress failed; if it fails again in this call or run, this is not logged"


async def test_a_progress_function_that_raises_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its error is logged once, and the document arrives whole."""

    class Failing(list[int]):  # and false, as long as it is empty
        def __call__(self, sent: int, _: int | None) -> None:
            self.append(sent)
            raise ZeroDivisionError

    told = Failing()
    async with taking() as (url, taker), GatewaySession(url, access_token="t") as gateway:
        await gateway.aml.upload_document(bytes(2 * CHUNK), on_progress=told)

    assert told == [CHUNK, 2 * CHUNK]
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("gateway_sdk", ONCE)
    ]
    assert taker.uploads[0].body == bytes(2 * CHUNK)


# --- transports of the user's own, which may do with a body what our engine does not ----------


class Repeating(httpx.AsyncBaseTransport):
    """Sends everything twice, as transports do that have retries of their own."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        for _ in range(2):
            body = cast("httpx.AsyncByteStream", request.stream)
            self.bodies.append(b"".join([piece async for piece in body]))
        return DONE


async def test_a_stream_that_is_sent_again_is_an_error_and_no_empty_document() -> None:
    """A transport that repeats by itself would else replace the document by nothing."""
    transport = Repeating()
    gateway = over(transport)

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
    gateway = over(transport)
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
    read = files._read_some
    monkeypatch.setattr(files, "_read_some", lambda file, size: read(file, min(size, most)))
    content = LARGE[: 300 * most]
    path = written(tmp_path, "scan", content)
    gateway, engine, _ = scripted(monkeypatch, DONE)

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
    gateway, engine, _ = scripted(monkeypatch)
    with pytest.raises(InvalidArgumentError, match="on_progress must be a plain function"):
        await gateway.aml.upload_document(b"scan", on_progress=tell)

    assert not engine.requests
