"""Compressed replies, and large ones: undone in steps, up to a limit."""

import asyncio
import gzip
import json
import sys
import tracemalloc
import zlib
from typing import Any

import httpx
import pytest

from gateway_sdk import GatewaySession, NotFoundError, Outcome, UnexpectedReplyError, operations
from gateway_sdk._http.reply import BodyReader, RawReply
from tests.http.replying import JSON, read, replying
from tests.support.raw_server import Server, raw_server
from tests.support.secrecy import CANARY

PLAIN = b'{"a":1}'
ZIPPED = gzip.compress(PLAIN, mtime=0)


@pytest.mark.parametrize(
    ("body", "encoding", "plain"),
    [
        pytest.param(ZIPPED, "gzip", PLAIN, id="gzip"),
        pytest.param(ZIPPED, "GZIP", PLAIN, id="upper"),
        pytest.param(ZIPPED, "x-gzip", PLAIN, id="x-gzip"),
        pytest.param(gzip.compress(PLAIN[:4]) + gzip.compress(PLAIN[4:]), "gzip", PLAIN, id="two"),
        pytest.param(ZIPPED + gzip.compress(b""), "gzip", PLAIN, id="empty member"),
        pytest.param(ZIPPED + b"\x00" * 100, "gzip", PLAIN, id="padding"),
        pytest.param(PLAIN, "identity", PLAIN, id="identity"),
        pytest.param(ZIPPED, "gzip, identity", PLAIN, id="gzip and identity"),
        pytest.param(ZIPPED, " ,utf-8 , GZIP,", PLAIN, id="gzip in a list"),
        pytest.param(gzip.compress(ZIPPED, mtime=0), "gzip, x-gzip", PLAIN, id="gzip twice"),
        pytest.param(PLAIN, "utf-8", PLAIN, id="a charset"),
        pytest.param(PLAIN, "charset=utf-8", PLAIN, id="a parameter"),
        pytest.param(PLAIN, "none", PLAIN, id="the word none"),
        pytest.param(PLAIN, "binary", PLAIN, id="binary"),
        pytest.param(ZIPPED, "aws-chunked,gzip", PLAIN, id="aws-chunked"),
        pytest.param(PLAIN, "br", PLAIN, id="JSON in spite of br"),
        pytest.param(b" ", "br", b" ", id="nothing in spite of br"),
        pytest.param(PLAIN, CANARY, PLAIN, id="any word"),
        pytest.param(PLAIN, "", PLAIN, id="none"),
        pytest.param(b"", "gzip", b"", id="nothing at all"),
    ],
)
async def test_compression_is_undone(body: bytes, encoding: str, plain: bytes) -> None:
    headers = {"content-encoding": encoding} if encoding else {}
    for size in (1, 3, 10_000):

        async def answer(_: httpx.Request, size: int = size) -> httpx.Response:
            return httpx.Response(200, headers={**headers, "content-type": JSON}, content=pieces())

        async def pieces(size: int = size) -> Any:
            for start in range(0, len(body), size):
                yield body[start : start + size]

        gateway = GatewaySession(
            "https://g.test", access_token="t", transport=httpx.MockTransport(answer)
        )
        reply = await gateway.send(operations.SPOT_TRADING_AVAILABLE_BALANCE)
        assert reply.body == plain
        assert reply.value == (json.loads(plain) if plain.strip() else None)


@pytest.mark.parametrize("at", range(1, len(ZIPPED)))
async def test_truncated_gzip_is_no_reply(at: int) -> None:
    with pytest.raises(UnexpectedReplyError, match="compress") as caught:
        await read(ZIPPED[:at], headers={"content-encoding": "gzip"})

    assert caught.value.outcome is Outcome.APPLIED


@pytest.mark.parametrize(
    ("body", "encoding", "problem"),
    [
        (b"plain", "gzip", "is not compressed as its content-encoding says"),
        (zlib.compress(b"{}"), "gzip", "is not compressed as its content-encoding says"),
        (ZIPPED[:-8] + b"\x00" * 8, "gzip", "is not compressed as its content-encoding says"),
        (b"\x0b\x01\x80{}\x03", "br", "has a content-encoding that was not asked for: br"),
        (gzip.compress(b"\x80", mtime=0), "zstd, gzip", "that was not asked for: zstd"),
        (zlib.compress(b"{}"), "deflate", "that was not asked for: deflate"),
        (b"text", f"{CANARY}", "has a content-encoding that was not asked for$"),
        (ZIPPED, "gzip, gzip", "is not compressed as its content-encoding says"),
        (
            gzip.compress(ZIPPED[:-1], mtime=0),
            "gzip, gzip",
            "ends in the middle of its compression",
        ),
        (
            gzip.compress(gzip.compress(ZIPPED, mtime=0), mtime=0),
            "gzip, gzip, gzip",
            "that was not asked for: gzip",
        ),
    ],
)
async def test_broken_compression_is_an_error(body: bytes, encoding: str, problem: str) -> None:
    with pytest.raises(UnexpectedReplyError, match=problem) as caught:
        await read(body, headers={"content-encoding": encoding})
    assert caught.value.outcome is Outcome.APPLIED
    assert CANARY not in str(caught.value)

    with pytest.raises(NotFoundError) as refused:
        await read(body, status=404, headers={"content-encoding": encoding})
    assert refused.value.payload is None or encoding != "gzip"


async def test_bomb_does_not_go_off() -> None:
    """A gigabyte of compressed zeros is refused at the limit, with the limit's memory."""
    zipper = zlib.compressobj(wbits=31)
    block = bytes(2**20)
    bomb = b"".join([*(zipper.compress(block) for _ in range(64)), zipper.flush()])
    many = bomb * 16  # sixteen members of 64 MiB each
    gateway = replying(many, headers={"content-encoding": "gzip"}, max_reply_bytes=10_000)

    tracemalloc.start()
    with pytest.raises(UnexpectedReplyError, match=r"larger than max_reply_bytes \(10000\)") as got:
        await gateway.wallet.spot_trading_available_balance()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert len(got.value.body) == 10_000
    assert peak < 4 * 2**20


def test_what_lies_behind_a_member_is_not_copied_for_each_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A megabyte of empty members takes no time that grows with its square, and no memory."""
    given: list[int] = []

    class Counting:
        def __init__(self, wbits: int) -> None:
            self._real = decompressobj(wbits)

        def decompress(self, data: bytes, most: int) -> bytes:
            given.append(len(data))
            return self._real.decompress(data, most)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    decompressobj = zlib.decompressobj
    monkeypatch.setattr(zlib, "decompressobj", Counting)
    member = gzip.compress(b"", mtime=0)
    reply = RawReply(200, fields := [(b"content-encoding", b"gzip")], dict(fields))
    reader = BodyReader(reply, 1000)

    turns = 1 + len(list(reader.feed(member * 50_000)))
    reader.finish()

    assert (reply.body, reply.problem) == (b"", None)
    assert len(given) >= 50_000
    assert max(given) <= 2**14
    assert turns >= 100


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_call_lets_others_run_while_its_reply_expands(at_once: bool) -> None:
    """The event loop turns between two parts of the work, also if all came with the head."""
    body = gzip.compress(b'"%b"' % (b"1" * 2**24))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
    async with raw_server(Server(head.encode() + body).handle) as url:
        gateway = (
            GatewaySession(url, access_token="t")
            if at_once
            else replying(body, headers={"content-encoding": "gzip"})
        )
        call = asyncio.create_task(gateway.aml.upload_document(b"x"))
        turns = 0
        while not call.done():
            await asyncio.sleep(0)
            turns += 1
        await gateway.aclose()

    assert len(str(await call)) == 2**24
    assert turns >= 16


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("size", [999, 1000, 1001, 5000])
async def test_limit_of_a_reply(size: int, zipped: bool) -> None:
    """A user who wants no limit may give the largest integer, or a larger one."""
    body = b'"' + b"a" * (size - 2) + b'"'
    wire = gzip.compress(body) if zipped else body
    headers = {"content-encoding": "gzip"} if zipped else {}
    gateway = replying(wire, headers=headers, max_reply_bytes=1000)

    for limit in (sys.maxsize, 10**30):
        assert len(await read(wire, headers=headers, max_reply_bytes=limit)) == size - 2
    if size <= 1000:
        assert await gateway.wallet.spot_trading_available_balance() == "a" * (size - 2)
        return
    with pytest.raises(UnexpectedReplyError, match="larger than max_reply_bytes") as caught:
        await gateway.wallet.spot_trading_available_balance()
    assert caught.value.body == body[:1000]
    assert caught.value.outcome is Outcome.APPLIED
