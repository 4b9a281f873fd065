"""What documents are sent as: bytes, text, JSON, files, streams; in pieces, with progress."""

import asyncio
from collections.abc import AsyncIterator, Callable
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
    Outcome,
    Repeatability,
    UnauthorizedError,
    UploadFailedError,
)
from gateway_sdk._content.files import CHUNK, FEW, LARGE_CHUNK
from tests.http.uploads.servers import taking
from tests.support.raw_server import raw_server
from tests.support.scripted import scripted
from tests.support.secrecy import texts_of

DONE = httpx.Response(200, json={})


async def stream(*pieces: Any) -> AsyncIterator[Any]:
    for piece in pieces:
        yield piece


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

    with pytest.raises(InvalidArgumentError, match="Login holds a secret"):
        await gateway.aml.upload_document(wrap(Login(**secret)))

    assert engine.bodies == []


async def test_a_model_without_its_secret_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stars within a text are no mask."""
    gateway, engine, _ = scripted(monkeypatch, DONE)

    await gateway.aml.upload_document(Login(note='a "**********" b'))

    assert engine.bodies == [b'{"note":"a \\"**********\\" b"}']


async def test_a_stream_need_not_be_a_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pieces:
        def __init__(self) -> None:
            self.left = [b"b", b"a"]

        def __aiter__(self) -> "Pieces":
            return self

        async def __anext__(self) -> bytes:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

    gateway, engine, _ = scripted(monkeypatch, DONE)

    await gateway.aml.upload_document(Pieces())

    assert engine.bodies == [b"ab"]


class Measuring(httpx.AsyncBaseTransport):
    def __init__(self) -> None:
        self.sizes: list[int] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = cast("httpx.AsyncByteStream", request.stream)
        self.sizes += [len(piece) async for piece in body]
        return DONE


@pytest.mark.parametrize("kind", ["bytes", "file"])
@pytest.mark.parametrize(
    "sizes", [[CHUNK, CHUNK, 5], [*[CHUNK] * (FEW // CHUNK), LARGE_CHUNK, 5]], ids=["short", "long"]
)
async def test_the_pieces_of_a_long_document_become_larger(
    tmp_path: Path, kind: str, sizes: list[int]
) -> None:
    """Small pieces would take more time than the system does; short documents keep them."""
    content, path, transport = bytes(sum(sizes)), tmp_path / "document", Measuring()
    path.write_bytes(content)
    gateway = GatewaySession("https://g.test", access_token="t", transport=transport)

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


async def drain(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(CHUNK):
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

    async def failing() -> AsyncIterator[bytes]:
        yield bytes(CHUNK)
        raise error

    async with raw_server(drain) as url, GatewaySession(url, access_token="t") as gateway:
        with pytest.raises(UploadFailedError, match=type(error).__name__) as caught:
            await gateway.aml.upload_document(failing())

    assert caught.value.outcome is Outcome.UNKNOWN
    assert caught.value.advice is Advice.CHECK
    assert len(caught.value.attempts) == 1
    assert caught.value.__context__ is error
    assert str(error) not in texts_of(caught.value)


async def test_a_progress_function_that_raises_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its error is logged each time, and the document arrives whole."""
    told: list[int] = []

    def fail(sent: int, _: int | None) -> None:
        told.append(sent)
        raise ZeroDivisionError

    async with taking() as (url, taker), GatewaySession(url, access_token="t") as gateway:
        await gateway.aml.upload_document(bytes(2 * CHUNK), on_progress=fail)

    assert told == [CHUNK, 2 * CHUNK]
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("gateway_sdk", "on_progress failed")
    ] * 2
    assert taker.uploads[0].body == bytes(2 * CHUNK)
