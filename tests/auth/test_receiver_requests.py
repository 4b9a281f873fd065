"""Requests to the receiver that are turned away: each has its status, and the wait goes on."""

import json
import socket
from collections.abc import AsyncIterator

import pytest

from gateway_sdk.auth.loopback import receiver
from tests.auth.traces import no_traces
from tests.auth.visits import RIGHT, WRONG, answer, post, visit, waiting

GOOD = answer(RIGHT)
CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(GOOD), GOOD)
DEEP = b"[" * 30_000
TLS_HELLO = bytes.fromhex("160301007a010000760303") + bytes(range(64))
HOST = b"Host: HOST\r\n"


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


NO_HTTP = {
    "garbage": (b"\x00\xff\xfe\x80\r\n\r\n", 400),
    "words": (b"good morning\r\n\r\n", 400),
    "a TLS hello": (TLS_HELLO, 400),
    "HTTP/0.9": (b"GET /callback\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 421),
    "a header without a colon": (b"GET /callback HTTP/1.1\r\n" + HOST + b"odd\r\n\r\n", 400),
    "a header folded with NUL": (visit({"Cookie": "a\x00b"}), 400),
    "a head of 40 KB": (visit({"Cookie": "x" * 40_000}), 431),
    "a target of 40 KB": (visit(target=f"/callback?{'x' * 40_000}"), 431),
    "two lengths": (post(CHUNKED, {"Transfer-Encoding": "chunked"}), 400),
    "two other lengths": (post(GOOD, {"content-length": "7"}), 400),
    "a length below zero": (post(GOOD, {"Content-Length": "-1"}), 400),
    "a transfer coding": (post(GOOD, {"Content-Length": None, "Transfer-Encoding": "gzip"}), 501),
    "a chunk that is none": (
        post(b"x\r\n\r\n", {"Content-Length": None, "Transfer-Encoding": "chunked"}),
        400,
    ),
}

ANOTHER_PLACE = {
    "no host": (visit({"Host": None}), 400),
    "no host in HTTP/1.0": (b"GET /callback HTTP/1.0\r\n\r\n", 421),
    "two hosts": (visit({"host": "HOST"}), 400),
    "two hosts, one of them another": (visit({"host": "evil.test"}), 400),
    "another host": (visit({"Host": "evil.test"}), 421),
    "an answer for another host": (
        post(GOOD, {"Host": "evil.test", "Origin": "http://evil.test"}),
        421,
    ),
    "another name of this host": (visit({"Host": "localhost"}), 421),
    "no port": (visit({"Host": "127.0.0.1"}), 421),
    "a host with a dot behind": (visit({"Host": "HOST."}), 421),
    "absolute form": (visit(target="http://HOST/callback"), 404),
    "asterisk form": (visit(method="OPTIONS", target="*"), 404),
    "authority form": (visit(method="CONNECT", target="HOST"), 404),
    "the root": (visit(target="/"), 404),
    "an icon": (visit({"Sec-Fetch-Dest": "image"}, target="/favicon.ico"), 404),
    "a path below": (visit(target="/callback/"), 404),
    "a path in capitals": (visit(target="/CALLBACK"), 404),
    "a path with dots": (visit(target="/x/../callback"), 404),
    "an answer to another path": (post(GOOD, target="/"), 404),
}

ANOTHER_PAGE = {
    "no origin": (post(GOOD, {"Origin": None}), 403),
    "a null origin": (post(GOOD, {"Origin": "null"}), 403),
    "another origin": (post(GOOD, {"Origin": "https://evil.test"}), 403),
    "an origin with https": (post(GOOD, {"Origin": "https://HOST"}), 403),
    "an origin at another port": (post(GOOD, {"Origin": "http://127.0.0.1:1"}), 403),
    "an origin that begins as ours": (post(GOOD, {"Origin": "http://HOST.evil.test"}), 403),
    "two origins": (post(GOOD, {"origin": "http://HOST"}), 403),
    "from another site": (post(GOOD, {"Sec-Fetch-Site": "cross-site"}), 403),
    "from another port": (post(GOOD, {"Sec-Fetch-Site": "same-site"}), 403),
    "into a frame": (visit({"Sec-Fetch-Dest": "iframe"}), 403),
    "as an image": (visit({"Sec-Fetch-Dest": "image"}), 403),
    "as a script": (visit({"Sec-Fetch-Dest": "script"}), 403),
    "by a fetch": (visit({"Sec-Fetch-Dest": "empty"}), 403),
}

NO_ANSWER = {
    "text/plain": (post(GOOD, {"Content-Type": "text/plain"}), 415),
    "a form": (post(GOOD, {"Content-Type": "application/x-www-form-urlencoded"}), 415),
    "no type": (post(GOOD, {"Content-Type": None}), 415),
    "two types": (post(GOOD, {"content-type": "application/json"}), 415),
    "nothing": (post(b""), 400),
    "no JSON": (post(b"{fragment}"), 400),
    "half of it": (post(GOOD[:-1]), 400),
    "no UTF-8": (post(b'{"fragment": "\xff", "query": ""}'), 400),
    "a list": (post(b'["state=ours", ""]'), 400),
    "a string": (post(b'"state=ours"'), 400),
    "nested deeply": (post(DEEP), 400),
    "nested deeply inside": (post(b'{"query": "", "fragment": ' + DEEP), 400),
    "a number of 5000 digits": (post(b'{"query": "", "fragment": ' + b"7" * 5000 + b"}"), 400),
    "no query": (post(b'{"fragment": "state=ours"}'), 400),
    "one key more": (post(b'{"fragment": "state=ours", "query": "", "more": ""}'), 400),
    "a number": (post(b'{"fragment": 7, "query": ""}'), 400),
    "null": (post(b'{"fragment": "state=ours", "query": null}'), 400),
    "a list inside": (post(b'{"fragment": ["state=ours"], "query": ""}'), 400),
    "a lone surrogate": (post(b'{"fragment": "\\ud800", "query": ""}'), 400),
    "a wrong state": (post(answer(WRONG)), 400),
    "an empty answer": (post(answer("")), 400),
    "a body of 81 KB": (post(GOOD + b" " * 81 * 1024), 413),
    "a body of 81 KB in chunks": (
        post(
            b"14400\r\n" + b" " * 0x14400 + b"\r\n0\r\n\r\n",
            {"Content-Length": None, "Transfer-Encoding": "chunked"},
        ),
        413,
    ),
}

TURNED_AWAY = {**NO_HTTP, **ANOTHER_PLACE, **ANOTHER_PAGE, **NO_ANSWER}


@pytest.mark.parametrize(("raw", "status"), TURNED_AWAY.values(), ids=TURNED_AWAY)
async def test_what_is_no_answer_of_the_page_is_turned_away(raw: bytes, status: int) -> None:
    """It gets its status and nothing of the page, and the right answer still ends the wait."""
    async with waiting() as there:
        reply = await there.send(raw)

        assert reply.status == status
        assert b"CANARY" not in reply.body
        assert len(reply.body) == int(reply.headers["Content-Length"])
        assert not reply.headers["Content-Type"].startswith("text/html")
        await there.must_still_wait()


@pytest.mark.parametrize("method", ["PUT", "HEAD", "OPTIONS", "DELETE", "PATCH", "TRACE", "get"])
async def test_other_methods_are_turned_away(method: str) -> None:
    """Only GET and POST are there, and no other site is allowed anything."""
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
async def test_the_page_is_shown_to_whoever_goes_to_it(raw: bytes) -> None:
    """A browser gets the page, as often as it asks, which ends no wait."""
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
        post(GOOD + b" " * (80 * 1024 - len(GOOD))),
        post(GOOD, target="/callback?state=theirs"),
        post(CHUNKED, {"Content-Length": None, "Transfer-Encoding": "chunked"}),
    ],
    ids=["of an older browser", "of 80 KB", "with a query", "in chunks"],
)
async def test_an_answer_of_the_page_is_taken(raw: bytes) -> None:
    """What the page sends ends the wait, whatever else the browser adds to it."""
    async with waiting() as there:
        reply = await there.send(raw)

        assert reply.status == 200
        assert json.loads(reply.body)["good"] is True
        assert await there.task == RIGHT


async def test_what_is_told_of_a_wrong_answer() -> None:
    """The page is told that the answer belongs elsewhere, in JSON and without the answer."""
    async with waiting() as there:
        reply = await there.hand_in(WRONG)

        assert json.loads(reply.body) == {
            "good": False,
            "heading": "This does not belong to the login that waits here",
            "text": "the answer has another state.",
        }
        await there.must_still_wait()


@pytest.mark.parametrize("length", [100_000, 250_000])
async def test_a_reply_reaches_who_is_still_sending(length: int) -> None:
    """A body that is too long is read on for a while, so that its refusal is not lost."""
    async with waiting() as there:
        line = await there.connect()
        await line.send(post(b"", {"Content-Length": "10000000"}))
        await line.send(b"x" * length)
        reply = await line.reply()
        await line.close()

        assert reply.status == 413
        await there.must_still_wait()


async def test_who_never_stops_sending_is_cut_off() -> None:
    """What follows a request that was turned away is not read for ever."""
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
async def test_who_does_not_finish_a_request_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
    raw: bytes,
    leaves: bool,
) -> None:
    """A connection has a time limit of its own, and may close at any point before."""
    async with waiting() as there:
        with monkeypatch.context() as patched:
            if not leaves:
                patched.setattr(receiver, "_CONNECTION_TIMEOUT", 0.01)
            line = await there.connect()
            await line.send(raw)
            if not leaves:
                assert await line.ended() == b""
            await line.close()

        await there.must_still_wait()


@pytest.mark.parametrize("at_once", [True, False])
async def test_many_idle_connections_lock_nobody_out(at_once: bool) -> None:
    """The oldest connections make room for the new ones, so the browser always comes through."""
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
