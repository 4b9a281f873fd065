"""Files that change while they are sent: an error, never a hang, and never a part for the whole."""

import asyncio
import io
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import anyio
import httpx
import pytest

from gateway_sdk import (
    GatewaySession,
    InvalidArgumentError,
    Multipart,
    Outcome,
    RateLimitedError,
    UploadFailedError,
)
from gateway_sdk._content import files as body_file
from gateway_sdk._content.files import CHUNK
from tests.http.uploads.kinds import Chunks, Steps
from tests.http.uploads.servers import (
    Changing,
    Unseekable,
    answer,
    grow,
    session,
    shrink,
    taking,
    written,
)
from tests.support.raw_server import OK
from tests.support.secrecy import CANARY, texts_of

CHANGES: dict[str, Callable[[Any], object]] = {"grows": grow, "shrinks": shrink}
SIZES = {"tiny": 2, "one read": CHUNK, "some reads": 5 * 2**20 + 3}


async def fails(content: Any) -> None:
    """Upload a file that changes: the call fails, and the server has not got it whole.

    An engine that sends the head together with the first piece has sent nothing if there is none.
    """
    async with taking() as (url, taker), session(url) as gateway:
        with pytest.raises(UploadFailedError, match="changed while") as caught:
            await gateway.aml.update_document("d", content)
        await taker.ended.wait()

    assert caught.value.outcome is (Outcome.UNKNOWN if taker.uploads else Outcome.NOT_SENT)
    assert len(caught.value.attempts) == 1
    for upload in taker.uploads:
        assert not upload.whole
        assert len(upload.body) < int(upload.framing[1])


@pytest.mark.parametrize("form", [False, True], ids=["alone", "in a form"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_an_open_file_that_changes(
    change: Callable[[Any], object], size: int, form: bool
) -> None:
    file = Changing(bytes(size), change)

    if size == SIZES["some reads"] or change is grow:
        await fails(Multipart({}, {"front": file}) if form else file)


@pytest.mark.parametrize("form", [False, True], ids=["alone", "in a form"])
@pytest.mark.parametrize("change", [grow, shrink, lambda file: file.write(b"other")])
async def test_a_path_whose_file_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: Callable[[Any], object], form: bool
) -> None:
    path = written(tmp_path, "scan.pdf", bytes(5 * 2**20))
    os.utime(path, (1, 1))  # clocks of files may be coarse
    read = body_file._read_some
    changed: list[object] = []

    def read_and_change(*given: Any) -> Any:
        found = read(*given)
        if not changed:
            with path.open("r+b") as other:
                changed.append(change(other))
        return found

    monkeypatch.setattr(body_file, "_read_some", read_and_change)

    await fails(Multipart({}, {"front": path}) if form else path)
    assert changed


async def test_two_files_of_a_form_cannot_make_up_for_each_other() -> None:
    """One that grows by what another one shrinks is an error, though the sum is right."""
    longer = Changing(bytes(5 * 2**20), grow)
    shorter = Changing(bytes(5 * 2**20), lambda file: file.truncate(5 * 2**20 - 4))

    await fails(Multipart({}, {"shorter": shorter, "longer": longer}))


@pytest.mark.parametrize("form", [False, True], ids=["alone", "in a form"])
@pytest.mark.parametrize(
    ("content", "change", "problem"),
    [
        (b"", lambda path: path.write_bytes(b"more"), "changed while"),
        (b"scan", Path.unlink, "FileNotFoundError"),
    ],
    ids=["is empty and grows", "is gone"],
)
async def test_a_file_that_changes_before_it_is_sent(
    tmp_path: Path, content: bytes, change: Callable[[Path], object], problem: str, form: bool
) -> None:
    """Between being measured and being sent; it is not named."""
    path = written(tmp_path, CANARY, content)

    class Meanwhile(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            change(path)
            await request.aread()
            raise AssertionError

    gateway = GatewaySession("https://g.test", access_token="t", transport=Meanwhile())
    with pytest.raises(UploadFailedError, match=problem) as caught:
        await gateway.aml.upload_document(Multipart({}, {"front": path}) if form else path)

    assert CANARY not in texts_of(caught.value)


async def test_a_file_that_turns_into_text() -> None:
    class Turning(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return "text" if size else b""  # type: ignore[return-value]  # the point of it

    async with taking() as (url, _), session(url) as gateway:
        with pytest.raises(UploadFailedError, match="gives no bytes"):
            await gateway.aml.upload_document(Turning(b"x"))


async def _generator() -> AsyncIterator[bytes]:
    yield b"a document"


@pytest.mark.parametrize(
    "make",
    [
        _generator,
        lambda: Steps(b"a document"),
        lambda: Chunks(b"a document"),
        lambda: anyio.wrap_file(io.BytesIO(b"a document")),
        lambda: io.BytesIO(b"a document"),
        lambda: Unseekable(b"a document"),
    ],
    ids=["generator", "wrapped", "iterator", "anyio's file", "open file", "pipe"],
)
async def test_content_that_an_earlier_call_has_read_is_refused(make: Callable[[], Any]) -> None:
    """What is left of it is not the document, and the error of that call may advise to repeat."""
    content = make()
    async with taking(answer(429), OK) as (url, taker), session(url) as gateway:
        once = gateway.with_options(retry=None)
        with pytest.raises(RateLimitedError):
            await once.aml.upload_document(content)
        with pytest.raises(InvalidArgumentError, match="earlier call"):
            await once.aml.upload_document(content)
        if isinstance(content, io.BytesIO) and content.seekable():
            content.seek(0)
            await once.aml.upload_document(content)

    assert {upload.body for upload in taker.uploads} == {b"a document"}


@pytest.mark.parametrize("content", [b"a document", b""])
async def test_an_asynchronous_file_that_was_read_to_its_end_is_refused(content: bytes) -> None:
    """Say, for its checksum. One that is empty is a document."""
    file = anyio.wrap_file(io.BytesIO(content))
    await file.read()
    async with taking() as (url, taker), session(url) as gateway:
        sending = gateway.aml.upload_document(file)
        if not content:
            await sending
        else:
            with pytest.raises(UploadFailedError, match="at its end: seek") as caught:
                await sending
            assert caught.value.outcome is Outcome.NOT_SENT

    assert [upload.body for upload in taker.uploads] == [b""] * (not content)


@pytest.mark.parametrize("tell", [None, AsyncMock(side_effect=OSError("a pipe")), lambda: 7])
async def test_an_asynchronous_stream_without_a_position_may_be_empty(tell: Any) -> None:
    stream = Chunks()
    stream.tell = tell  # type: ignore[attr-defined]  # as files have it
    async with taking() as (url, taker), session(url) as gateway:
        await gateway.aml.upload_document(stream)

    assert [upload.body for upload in taker.uploads] == [b""]


async def test_one_open_file_in_two_calls_at_a_time_is_whole_or_refused() -> None:
    """The one that looks at it while the other reads finds no beginning."""
    file, content = io.BytesIO(), bytes(range(256)) * 20_000
    file.write(content)
    file.seek(0)
    async with taking() as (url, taker), session(url) as gateway:
        calls = (gateway.aml.update_document(name, file) for name in "ab")
        ends = await asyncio.gather(*calls, return_exceptions=True)

    refused = [end for end in ends if isinstance(end, InvalidArgumentError)]
    assert len(taker.uploads) == 2 - len(refused) >= 1
    assert all(upload.body == content for upload in taker.uploads)
