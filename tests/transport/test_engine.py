"""The engine over real sockets: slots, connecting, idle connections, its end."""

import asyncio
import errno
import gc
import itertools
import os
import threading
import time
import weakref
from collections.abc import AsyncIterator
from typing import Any, cast

import httpx
import pytest

from gateway_sdk import GatewaySession, NotFoundError, Outcome, UploadFailedError
from gateway_sdk._call.failure import reason_of
from gateway_sdk._transport import pool
from gateway_sdk._transport.trust import MOST_REST as KEEPALIVE_EXPIRY
from tests.support.calls import Renewing
from tests.support.engines import IDLE, Engine, body_of, engine_at
from tests.support.failing_steps import turns
from tests.support.logins import Clock
from tests.support.raw_server import OK, Server, raw_server


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Set the clocks: that of asyncio's loop and that of the pool. A busy machine moves neither."""
    clock, ticks = Clock(0.0), itertools.count()
    for owner, name in ((time, "monotonic"), (pool, "now")):
        began = getattr(owner, name)()
        monkeypatch.setattr(owner, name, lambda began=began: began + clock.now + next(ticks) * 1e-6)
    return clock


@pytest.mark.asyncio_loop
@pytest.mark.parametrize(
    ("hint", "seconds"),
    [
        (b"timeout=5", 4.0),
        (b"max=100, Timeout=5", 4.0),
        (b"timeout=1", 0.0),
        (b"timeout=900", KEEPALIVE_EXPIRY),
        (b"max=100", KEEPALIVE_EXPIRY),
        (b"", KEEPALIVE_EXPIRY),
    ],
)
async def test_a_server_says_how_long_it_keeps_an_idle_connection(
    clock: Clock, hint: bytes, seconds: float
) -> None:
    """A request that comes when it closes would be lost, and of a write nothing would be known."""
    server = Server(OK.replace(b"\r\n\r\n", b"\r\nKeep-Alive: " + hint + b"\r\n\r\n"))
    async with engine_at(server.handle) as engine:
        for passed in (0.0, max(seconds - 0.1, 0.0), seconds):
            clock.now += passed
            await body_of(await engine.send())

    assert [len(received) for received in server.received] == ([2, 1] if seconds else [1, 1, 1])


@pytest.mark.asyncio_loop
async def test_old_idle_connections_are_cut_without_another_call(clock: Clock) -> None:
    """Each at its own time; a younger one stays."""
    server = Server(OK[:-1])
    async with engine_at(server.handle) as engine:
        held = [await engine.send() for _ in range(2)]
        for half, response in enumerate(held):
            clock.now = half * KEEPALIVE_EXPIRY / 2
            server.writers[half].write(OK[-1:])
            await body_of(response)
        first, second = engine._pool.idle
        for number, connection in enumerate((first, second)):
            clock.now = KEEPALIVE_EXPIRY * (1 + number / 2) - 1
            await turns(3)
            assert f"{2 - number} idle" in repr(engine)
            clock.now += 1
            await connection.closed
        assert "0 idle" in repr(engine)


async def test_closing_cuts_what_is_open() -> None:
    server = Server(OK[:-1])
    async with engine_at(server.handle) as engine:
        response = await engine.send()
        await engine.aclose()
        assert not engine._pool.open
        with pytest.raises(httpx.RemoteProtocolError):
            await body_of(response)
        stream = cast("httpx.AsyncByteStream", response.stream)
        await stream.aclose()
        await stream.aclose()  # closing twice does not give the slot back twice
        assert IDLE in repr(engine)
        with pytest.raises(httpx.StreamClosed):
            await body_of(response)


async def test_a_reply_does_not_wait_for_the_garbage_collection() -> None:
    """It may be large, and in a program with many objects that is seldom."""
    server = Server(OK[:-1])
    async with engine_at(server.handle) as engine:
        gc.disable()
        try:
            response = await engine.send()
            server.writers[0].write(OK[-1:])
            await body_of(response)
            kept = weakref.ref(response.stream)
            del response
            assert kept() is None
        finally:
            gc.enable()


async def test_a_time_out_of_the_system_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system gives up by its own clock, so the seconds of `timeout` are not named."""

    async def give_up(*_: object) -> None:
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", give_up)

    with pytest.raises(httpx.ConnectError) as caught:
        await Engine("http://127.0.0.1:9").send(connect=30)

    assert isinstance(caught.value.__cause__, TimeoutError)
    text = os.strerror(errno.ETIMEDOUT)
    assert reason_of(caught.value, httpx.Timeout(30)).text == text[:1].lower() + text[1:]


# --- which connections are used again -----------------------------------------------------

SIZES = [60_000, 150_000, 300_000, 2_000_000]


@pytest.mark.parametrize("size", SIZES)
async def test_an_upload_after_a_refusal_has_a_connection_of_its_own(size: int) -> None:
    """Servers refuse before they have read an upload, and close the connection a moment later."""
    server = Server(
        lambda request: OK if b"Bearer token-1" in request else OK.replace(b"200", b"401")
    )

    async with (
        raw_server(server.handle) as url,
        GatewaySession(url, access_token=Renewing(), retry=None) as gateway,
    ):
        assert await gateway.aml.upload_document(bytes(size)) == {}

    assert len(server.received) == (1 if size < 2**16 else 2)


async def test_a_small_call_that_is_refused_costs_no_connection() -> None:
    """What left in one write was read: 60 times 404 need no second TLS handshake."""
    server = Server(OK.replace(b"200", b"404"))

    async with (
        raw_server(server.handle) as url,
        GatewaySession(url, access_token="t", tenant_id="acme") as gateway,
    ):
        for number in range(60):
            with pytest.raises(NotFoundError):
                await gateway.customer.revise_customer("c-1", {"name": str(number)})

    assert len(server.received) == 1


async def test_no_connection_waits_for_the_first_piece_of_a_stream() -> None:
    """A server closes a connection that is silent for too long, and the stream would be lost."""
    server = Server()
    connections: list[int] = []

    async def stream() -> AsyncIterator[bytes]:
        connections.append(len(server.received))
        yield b"first"
        await asyncio.sleep(0)
        yield b"second"

    async with raw_server(server.handle) as url, GatewaySession(url, access_token="t") as gateway:
        await gateway.aml.upload_document(stream())

    assert connections == [0]


@pytest.mark.parametrize("first", [True, False])
async def test_a_stream_that_is_never_sent_is_closed(first: bool) -> None:
    """There was no connection, so that it could have been sent again; or it failed at once."""
    closed: list[None] = []

    async def stream() -> AsyncIterator[bytes]:
        try:
            if not first:
                raise LookupError
            yield b"first"
            yield b"second"
        finally:
            closed.append(None)

    gateway = GatewaySession("http://127.0.0.1:1", access_token="t", retry=None)
    async with gateway:
        with pytest.raises(Exception, match=r"refused|LookupError") as caught:
            await gateway.aml.upload_document(stream())

    error: Any = caught.value
    assert error.outcome is Outcome.NOT_SENT
    assert closed == [None]


async def test_a_system_without_a_thread_to_spare_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """A session opens without one; a file cannot be read, and nothing was sent."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    document = tmp_path / "document"
    document.write_bytes(bytes(100_000))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        async with GatewaySession("https://127.0.0.1:1", access_token="t", retry=None) as gateway:
            with pytest.raises(UploadFailedError, match="no thread can be started") as caught:
                await gateway.aml.upload_document(document)

    assert caught.value.outcome is Outcome.NOT_SENT
