"""What documents are sent as: bytes, text, JSON, files, streams; in pieces, with progress."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, Field, SecretBytes, SecretStr

from gateway_sdk import InvalidArgumentError, Outcome, UploadFailedError
from gateway_sdk._http.pieces import FEW, LARGE_PIECE, PIECE
from gateway_sdk.models import OrderHistoryPage
from tests.support.scripted import scripted

DONE = httpx.Response(200, json={})


async def stream(*pieces: Any) -> AsyncIterator[Any]:
    for piece in pieces:
        yield piece


@pytest.mark.parametrize(
    ("content", "sent", "content_type"),
    [
        (b"\x00\xff", b"\x00\xff", "application/octet-stream"),
        (bytearray(b"ab"), b"ab", "application/octet-stream"),
        (memoryview(b"ab"), b"ab", "application/octet-stream"),
        (b"", b"", "application/octet-stream"),
        ("Zürich", "Zürich".encode(), "text/plain; charset=utf-8"),
        ({"status": "ok", "n": None}, b'{"status":"ok","n":null}', "application/json"),
        (MappingProxyType({"status": "ok"}), b'{"status":"ok"}', "application/json"),
        (["ü", 1.5], '["ü",1.5]'.encode(), "application/json"),
        (OrderHistoryPage(page=1, take=2), b'{"page":1,"take":2}', "application/json"),
    ],
)
async def test_content_is_sent_as_what_it_is(
    monkeypatch: pytest.MonkeyPatch, content: Any, sent: bytes, content_type: str
) -> None:
    """Each kind of content has its bytes, its length and its media type."""
    gateway, engine, _ = scripted(monkeypatch, DONE)

    await gateway.aml.upload_document(content)

    assert engine.bodies == [sent]
    assert engine.requests[0].headers["Content-Type"] == content_type
    assert engine.requests[0].headers["Content-Length"] == str(len(sent))


class Status(BaseModel):
    new_status: str = Field(serialization_alias="newStatus")
    comment: str = ""


async def test_a_model_of_the_users_own_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes out under its aliases, without what was not set."""
    gateway, engine, _ = scripted(monkeypatch, DONE)

    await gateway.aml.change_document_status("d-1", Status(new_status="verified"))

    assert engine.bodies == [b'{"newStatus":"verified"}']
    assert engine.requests[0].headers["Content-Type"] == "application/json"


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


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("passport.pdf", "application/pdf"),
        ("scan.JPG", "image/jpeg"),
        ("unknown", "application/octet-stream"),
        ("archive.tar.gz", "application/octet-stream"),
    ],
)
async def test_a_path_is_sent_as_that_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, content_type: str
) -> None:
    """A file is streamed, with its length and the media type that its name suggests."""
    content = os.urandom(PIECE * 20 + 1)
    (tmp_path / name).write_bytes(content)
    progress: list[tuple[int, int | None]] = []
    gateway, engine, _ = scripted(monkeypatch, DONE)

    await gateway.aml.upload_document(
        tmp_path / name, on_progress=lambda sent, total: progress.append((sent, total))
    )

    assert engine.bodies == [content]
    assert engine.requests[0].headers["Content-Type"] == content_type
    assert engine.requests[0].headers["Content-Length"] == str(len(content))
    assert progress[0] == (PIECE, len(content))
    assert progress == sorted(set(progress))
    assert progress[-1] == (len(content), len(content))


async def test_an_empty_file_is_a_document_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file of no bytes is sent with a length of 0."""
    (tmp_path / "empty").touch()
    gateway, engine, _ = scripted(monkeypatch, DONE)

    await gateway.aml.upload_document(tmp_path / "empty")

    assert engine.bodies == [b""]
    assert engine.requests[0].headers["Content-Length"] == "0"


async def test_a_stream_is_sent_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream has no length, so it goes out chunked, and its total is unknown."""
    progress: list[tuple[int, int | None]] = []
    gateway, engine, _ = scripted(monkeypatch, DONE)

    await gateway.aml.upload_document(
        stream(b"ab", bytearray(b"c"), memoryview(b"d")),
        content_type="image/png",
        on_progress=lambda sent, total: progress.append((sent, total)),
    )

    assert engine.bodies == [b"abcd"]
    assert engine.requests[0].headers["Transfer-Encoding"] == "chunked"
    assert engine.requests[0].headers["Content-Type"] == "image/png"
    assert "Content-Length" not in engine.requests[0].headers
    assert progress == [(2, None), (3, None), (4, None)]


async def test_a_stream_need_not_be_a_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything that can be iterated over asynchronously is a stream."""

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


async def test_large_content_goes_out_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """No piece of a short document is above 64 KiB: cancellation and progress are prompt."""
    sizes: list[int] = []

    async def measure(request: httpx.Request) -> None:
        sizes.extend([len(piece) async for piece in request.stream])  # type: ignore[union-attr]

    gateway, engine, _ = scripted(monkeypatch, DONE)
    engine.handle_async_request = _measuring(measure)  # type: ignore[method-assign]

    await gateway.aml.upload_document(bytes(2 * PIECE + 5))

    assert sizes == [PIECE, PIECE, 5]


@pytest.mark.parametrize("kind", ["bytes", "file"])
async def test_the_pieces_of_a_long_document_become_larger(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    """Small pieces would take more time than the system does; short documents keep them."""
    content, path = bytes(FEW + LARGE_PIECE + 5), tmp_path / "long"
    path.write_bytes(content)
    sizes: list[int] = []

    async def measure(request: httpx.Request) -> None:
        sizes.extend([len(piece) async for piece in request.stream])  # type: ignore[union-attr]

    gateway, engine, _ = scripted(monkeypatch, DONE)
    engine.handle_async_request = _measuring(measure)  # type: ignore[method-assign]

    await gateway.aml.upload_document(content if kind == "bytes" else path)

    assert sizes == [*[PIECE] * (FEW // PIECE), LARGE_PIECE, 5]


def _measuring(measure: Any) -> Any:
    async def handle(request: httpx.Request) -> httpx.Response:
        await measure(request)
        return httpx.Response(200, json={})

    return handle


async def test_progress_never_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a body is sent again, progress waits until it is further than before."""
    progress: list[int] = []
    gateway, _, _ = scripted(monkeypatch, httpx.ReadError("-"), DONE)

    await gateway.aml.update_document(
        "d-1", bytes(2 * PIECE), on_progress=lambda sent, _: progress.append(sent)
    )

    assert progress == [PIECE, 2 * PIECE]


@pytest.mark.parametrize("change", [b"shorter", b"now it is longer than it was"])
async def test_a_file_that_changes_its_size_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: bytes
) -> None:
    """A file that shrinks or grows after its length was promised ends the call, not in a hang."""
    document = tmp_path / "document"
    document.write_bytes(b"twelve bytes")
    gateway, engine, _ = scripted(monkeypatch, DONE)
    send = engine.handle_async_request

    async def change_then_send(request: httpx.Request) -> httpx.Response:
        document.write_bytes(change)
        return await send(request)

    engine.handle_async_request = change_then_send  # type: ignore[method-assign]

    with pytest.raises(UploadFailedError, match="changed its size") as caught:
        await gateway.aml.upload_document(document)

    assert caught.value.outcome is Outcome.UNKNOWN
    assert len(caught.value.attempts) == 1


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

    pieces = len(mib) // PIECE
    assert {number * pieces for number in range(1, 5)} <= set(seen)


async def test_a_stream_of_something_else_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of strings is refused when its first piece comes."""
    gateway, _, _ = scripted(monkeypatch, DONE)

    with pytest.raises(UploadFailedError, match="not of bytes"):
        await gateway.aml.upload_document(stream("text"))


async def test_the_webhook_takes_a_body_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without content no body and no media type are sent; with content both are."""
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(202))

    await gateway.kyc.send_webhook()
    await gateway.kyc.send_webhook({"event": "verified"})

    assert engine.bodies == [b"", b'{"event":"verified"}']
    assert "Content-Type" not in engine.requests[0].headers
    assert engine.requests[0].headers["Content-Length"] == "0"
    assert engine.requests[1].headers["Content-Type"] == "application/json"
