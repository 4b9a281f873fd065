"""Requests that the receiver refuses: each has its status, and the wait goes on."""

import json
import socket
from collections.abc import AsyncIterator

import pytest

from gateway_sdk.auth import _callback_server
from tests.auth.bad_requests import GOOD, TURNED_AWAY
from tests.auth.traces import no_traces
from tests.auth.visits import RIGHT, WRONG, post, visit, waiting


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


@pytest.mark.parametrize(("raw", "status"), TURNED_AWAY.values(), ids=TURNED_AWAY)
async def test_a_request_that_is_not_of_the_page_is_refused(raw: bytes, status: int) -> None:
    """It gets its status and no part of the page, and the valid response still ends the wait."""
    async with waiting() as there:
        reply = await there.send(raw)

        assert reply.status == status
        assert b"CANARY" not in reply.body
        assert len(reply.body) == int(reply.headers["Content-Length"])
        assert not reply.headers["Content-Type"].startswith("text/html")
        await there.must_still_wait()


@pytest.mark.parametrize("method", ["PUT", "HEAD", "OPTIONS", "DELETE", "PATCH", "TRACE", "get"])
async def test_other_methods_are_refused(method: str) -> None:
    """Only GET and POST are allowed, and other sites are allowed nothing."""
    async with waiting() as there:
        reply = await there.send(visit({"Origin": "http://evil.test"}, method=method))

        assert reply.status == 405
        assert reply.headers["Allow"] == "GET, POST"
        assert not any(name.startswith("Access-Control") for name in reply.headers)
        assert (reply.body == b"") is (method == "HEAD")
        await there.must_still_wait()


@pytest.mark.parametrize(
    "raw",
    [
        visit(),
        visit({"Sec-Fetch-Dest": None, "Sec-Fetch-Site": None}),
        visit(target="/callback?error=access_denied&state=ours"),
    ],
)
async def test_the_page_is_shown_to_every_browser(raw: bytes) -> None:
    """A browser gets the page as often as it asks; that does not end the wait."""
    async with waiting() as there:
        for _ in range(2):
            reply = await there.send(raw)
            assert reply.status == 200
            assert reply.body.startswith(b"<!doctype html>")

        await there.must_still_wait()


@pytest.mark.parametrize(
    "raw",
    [
        post(GOOD, {"Sec-Fetch-Site": None, "Sec-Fetch-Dest": None}),
        post(GOOD + b" " * (256 * 1024 - len(GOOD))),
        post(GOOD, target="/callback?state=theirs"),
        post(GOOD, {"Cookie": "other=x; COOKIE;last=y"}),
        post(GOOD, {"X": "x" * 14_000}),
        post(GOOD + b"\n" * 1000, {f"X{number}": "" for number in range(90)}),
    ],
    ids=[
        "of an older browser",
        "of 256 KB",
        "with a query",
        "with other cookies",
        "with 14 KB",
        "with 98 lines",
    ],
)
async def test_a_response_from_the_page_is_accepted(raw: bytes) -> None:
    """The page's request ends the wait, also with headers that browsers add."""
    async with waiting() as there:
        reply = await there.send(raw)

        assert reply.status == 200
        assert json.loads(reply.body)["good"] is True
        assert await there.task == RIGHT


async def test_the_reply_to_a_response_of_another_login() -> None:
    """The page learns in JSON that the response belongs to another login, without the response."""
    async with waiting() as there:
        reply = await there.hand_in(WRONG)

        assert json.loads(reply.body) == {
            "good": False,
            "heading": "This response belongs to another login",
            "text": "the answer has another state.",
        }
        await there.must_still_wait()


@pytest.mark.parametrize("length", [100_000, 250_000])
async def test_a_reply_reaches_a_client_that_is_still_sending(length: int) -> None:
    """A body that is too long is read for a while, so that the client can read the refusal."""
    async with waiting() as there:
        line = await there.connect()
        await line.send(post(b"", {"Content-Length": "10000000"}))
        await line.send(b"x" * length)
        reply = await line.reply()
        await line.close()

        assert reply.status == 413
        await there.must_still_wait()


async def test_a_client_that_never_stops_sending_is_disconnected() -> None:
    """After a refused request, reading stops at a limit."""
    async with waiting() as there:
        line = await there.connect()
        await line.send(post(b"", {"Content-Length": "100000000"}))
        with pytest.raises(ConnectionError):
            await line.send(b"x" * 20_000_000)

        await there.must_still_wait()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"GET /callb",
        visit()[:-2],
        post(b"", {"Content-Length": "100"}) + b"{",
    ],
    ids=["nothing", "half a line", "half a head", "half a body"],
)
@pytest.mark.parametrize("leaves", [True, False])
async def test_an_unfinished_request_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
    raw: bytes,
    leaves: bool,
) -> None:
    """A connection has its own time limit, and may be closed at any point before."""
    async with waiting() as there:
        await there.open()
        with monkeypatch.context() as patched:
            if not leaves:
                patched.setattr(_callback_server, "_CONNECTION_TIMEOUT", 0.01)
            line = await there.connect()
            await line.send(raw)
            if not leaves:
                assert await line.ended() == b""
            await line.close()

        await there.must_still_wait()


@pytest.mark.parametrize("at_once", [True, False])
async def test_many_idle_connections_do_not_lock_out_the_browser(at_once: bool) -> None:
    """New connections close the oldest ones, so the browser can always connect."""
    async with waiting() as there:
        await there.send(visit())
        if at_once:
            sockets = [socket.create_connection((there.host, there.port)) for _ in range(40)]
            idle = [await there.take(opened) for opened in sockets]
        else:
            idle = [await there.connect() for _ in range(40)]
        for line in idle[:24]:
            assert await line.ended() == b""

        assert [line.is_open for line in idle] == [False] * 24 + [True] * 16
        await there.must_still_wait()
