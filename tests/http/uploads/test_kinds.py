"""Every kind of document over a real socket: its bytes, its framing, and when it is sent again."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import GatewaySession, Outcome, RetryPolicy, ServerError, operations
from tests.http.uploads.kinds import KINDS, OPEN, given
from tests.http.uploads.servers import Taker, Upload, answer, taking
from tests.support.raw_server import OK


def session(url: str, **options: Any) -> GatewaySession:
    options = {"access_token": "token", "retry": RetryPolicy(backoff=0), **options}
    return GatewaySession(url, **options)


def check(name: str, upload: Upload) -> None:
    kind = KINDS[name]
    assert upload.whole
    if kind.sent is not None:
        assert upload.body == kind.sent
    else:
        assert upload.body.startswith(b"--")
        assert upload.body.endswith(b"--\r\n")
    framed = [str(len(upload.body)), ""] if kind.replayable else ["", "chunked"]
    assert upload.framing[1:] == framed


@pytest.mark.parametrize("name", KINDS)
async def test_a_document_arrives_as_it_is(tmp_path: Path, name: str) -> None:
    """A length is promised where it is known; what cannot go back is sent in chunks.

    Progress only grows, and its last word is the whole document, even if that is empty.
    """
    told: list[tuple[int, int | None]] = []
    with given(name, tmp_path) as content:
        async with taking() as (url, taker), session(url) as gateway:
            await gateway.aml.upload_document(content, on_progress=lambda *at: told.append(at))

    (upload,) = taker.uploads
    check(name, upload)
    size = len(upload.body)
    numbers = [sent for sent, _ in told]
    assert numbers == sorted(set(numbers))
    assert told[-1] == (size, size if KINDS[name].replayable else None)
    assert {total for _, total in told} == {told[-1][1]}


@pytest.mark.parametrize("name", KINDS)
async def test_a_failed_upload_is_sent_again_if_it_can_be(tmp_path: Path, name: str) -> None:
    """A 503 for an idempotent PUT repeats the same bytes, or is the error if they are gone."""
    told: list[int] = []
    with given(name, tmp_path) as content:
        async with taking(answer(503), OK) as (url, taker), session(url) as gateway:
            call = gateway.aml.update_document(
                "d", content, on_progress=lambda at, _: told.append(at)
            )
            if KINDS[name].replayable:
                await call
            else:
                with pytest.raises(ServerError) as caught:
                    await call
                assert caught.value.outcome is Outcome.UNKNOWN

    assert len(taker.uploads) == 1 + KINDS[name].replayable
    for upload in taker.uploads:
        check(name, upload)
        assert upload == taker.uploads[0]  # a form has the same boundary again
    assert told == sorted(set(told))


@pytest.mark.parametrize("name", KINDS)
async def test_a_refused_connection_costs_no_document(tmp_path: Path, name: str) -> None:
    """Nothing was read when no connection was made: it is sent by the next one, even a stream."""
    taker = Taker()
    with given(name, tmp_path) as content, socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # refuses connections until somebody listens

        async def listen(_: float) -> None:
            await asyncio.start_server(taker.serve, sock=sock)

        async with session(f"http://127.0.0.1:{sock.getsockname()[1]}") as gateway:
            gateway._caller.shared.sleep = listen
            reply = await gateway.send(operations.UPLOAD_DOCUMENT, body=content)

    assert [attempt.outcome for attempt in reply.attempts] == [Outcome.NOT_SENT, Outcome.APPLIED]
    assert len(taker.uploads) == 1
    check(name, taker.uploads[0])


@pytest.mark.parametrize("name", OPEN)
async def test_an_open_file_stays_open(tmp_path: Path, name: str) -> None:
    """It is not ours: its owner closes it, and may send it again from where that begins."""
    with given(name, tmp_path) as content:
        start = content.tell()
        async with taking() as (url, taker), session(url) as gateway:
            await gateway.aml.upload_document(content)
            assert not content.closed
            content.seek(start)
            await gateway.aml.upload_document(content)

    for upload in taker.uploads:
        check(name, upload)
