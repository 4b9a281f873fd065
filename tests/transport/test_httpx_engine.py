"""The httpx engine over real sockets: reuse, cancellation, what was sent."""

import asyncio
import gc
import logging
import ssl
import subprocess
import sys
import threading
import tomllib
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final, cast

import httpcore
import httpx
import pytest

from gateway_sdk import GatewaySession
from gateway_sdk._transport import httpcore_connection, httpx_engine
from gateway_sdk._transport.httpx_engine import HttpxEngine, load_module
from gateway_sdk._transport.transmission import EXTENSION, Transmission
from tests.support.raw_server import OK, raw_server, read_request

pytestmark = pytest.mark.httpx

PYPROJECT: Final = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture
async def engine() -> AsyncIterator[HttpxEngine]:
    """An engine with two slots, closed after the test."""
    made = HttpxEngine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    yield made
    await made.aclose()


def request(url: str, transmission: Transmission | None = None, pool: float = 5) -> httpx.Request:
    """Make a GET with short time-outs."""
    extensions = {"timeout": {"connect": 5, "read": 5, "write": 5, "pool": pool}}
    return httpx.Request(
        "GET", url, extensions={**extensions, **({EXTENSION: transmission} if transmission else {})}
    )


async def body_of(response: httpx.Response) -> bytes:
    """Read a reply to its end and give its connection back."""
    stream = cast("httpx.AsyncByteStream", response.stream)
    body = b"".join([piece async for piece in stream])
    await stream.aclose()
    return body


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of a connection."""
    while True:
        await read_request(reader)
        writer.write(OK)


async def test_a_connection_is_used_again(engine: HttpxEngine) -> None:
    """Calls one after the other go over one connection."""
    connections = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await answer(reader, writer)

    async with raw_server(count) as url:
        for _ in range(3):
            assert await body_of(await engine.handle_async_request(request(url))) == b"{}"

    assert connections == 1
    assert repr(engine) == "<HttpxEngine <Slots 0 of 2 taken, 0 waiting>, 1 idle>"


async def test_a_reply_that_was_not_read_to_its_end_costs_its_connection(
    engine: HttpxEngine,
) -> None:
    """A connection with half a reply in it is thrown away, and its slot is free at once."""
    async with raw_server(answer) as url:
        response = await engine.handle_async_request(request(url))
        stream = cast("httpx.AsyncByteStream", response.stream)
        await stream.aclose()
        await stream.aclose()  # closing twice does not give the slot back twice

        assert repr(engine) == "<HttpxEngine <Slots 0 of 2 taken, 0 waiting>, 0 idle>"


async def test_a_cancelled_call_frees_its_slot_and_cuts_its_connection(
    engine: HttpxEngine,
) -> None:
    """The server sees the connection end when the caller is cancelled."""
    received = asyncio.Event()
    cut = asyncio.Event()

    async def never_answer(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)
        received.set()
        if not await reader.read():
            cut.set()

    async with raw_server(never_answer) as url:
        call = asyncio.create_task(engine.handle_async_request(request(url)))
        await received.wait()
        call.cancel()
        await asyncio.wait([call])
        assert repr(engine) == "<HttpxEngine <Slots 0 of 2 taken, 0 waiting>, 0 idle>"
        await cut.wait()

    assert call.cancelled()


async def test_waiting_for_a_slot_ends_with_the_pool_time_out(engine: HttpxEngine) -> None:
    """A caller that finds no free slot in time gets PoolTimeout, and nothing was sent."""
    transmission = Transmission(sent=False)
    async with raw_server(answer) as url:
        held = [await engine.handle_async_request(request(url)) for _ in range(2)]
        with pytest.raises(httpx.PoolTimeout):
            await engine.handle_async_request(request(url, transmission, pool=0.01))
        for response in held:
            await body_of(response)

    assert not transmission.sent
    assert repr(engine) == "<HttpxEngine <Slots 0 of 2 taken, 0 waiting>, 2 idle>"


async def test_sent_is_true_once_the_head_was_begun(engine: HttpxEngine) -> None:
    """The transmission of a request says that it was sent, also if no reply comes."""

    async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await read_request(reader)

    transmission = Transmission(sent=False)
    async with raw_server(hang_up) as url:
        with pytest.raises(httpx.RemoteProtocolError):
            await engine.handle_async_request(request(url, transmission))

    assert transmission.sent


async def test_nothing_is_sent_if_nobody_listens(engine: HttpxEngine) -> None:
    """A refused connection leaves the transmission at not sent."""
    transmission = Transmission(sent=False)
    async with raw_server(answer) as url:
        pass  # closed again: nobody listens there now

    with pytest.raises(httpx.ConnectError):
        await engine.handle_async_request(request(url, transmission))

    assert not transmission.sent


async def test_old_idle_connections_are_closed() -> None:
    """A connection that was idle for longer than load balancers allow is let go."""
    now = 0.0
    engine = HttpxEngine(2, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), clock=lambda: now)

    async with raw_server(answer) as url:
        both = [await engine.handle_async_request(request(url)) for _ in range(2)]
        await body_of(both[0])
        now = 30.0
        await body_of(both[1])
        now = 60.0
        engine._pool._prune()  # what the timer does

        assert repr(engine).endswith("1 idle>")
        now = 90.0
        engine._pool._prune()

        assert repr(engine).endswith("0 idle>")
        await engine.aclose()


async def test_a_cancelled_tls_handshake_leaves_no_socket(engine: HttpxEngine) -> None:
    """The server sees the connection end at once, and not at some garbage collection."""
    hello, cut = asyncio.Event(), asyncio.Event()

    async def never_shake_hands(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read(1)
        hello.set()
        while await reader.read(1000):
            pass
        cut.set()

    async with raw_server(never_shake_hands) as url:
        call = asyncio.create_task(
            engine.handle_async_request(request(url.replace("http:", "https:")))
        )
        await hello.wait()
        call.cancel()
        await asyncio.wait([call])
        await asyncio.wait_for(cut.wait(), 5)

    assert call.cancelled()


async def test_a_connection_that_cannot_be_made_costs_no_slot(
    engine: HttpxEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong before there is a connection, the slot comes back."""

    def fail(_: httpx.URL) -> None:
        raise MemoryError

    monkeypatch.setattr(engine._pool, "take", fail)
    for _ in range(3):
        with pytest.raises(MemoryError):
            await engine.handle_async_request(request("http://127.0.0.1:1"))

    assert repr(engine) == "<HttpxEngine <Slots 0 of 2 taken, 0 waiting>, 0 idle>"


async def test_a_failure_while_giving_back_costs_the_connection(
    engine: HttpxEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that cannot be given back cleanly is cut, and the error goes up."""

    async def fail(_: httpcore.Response) -> None:
        raise MemoryError

    async with raw_server(answer) as url:
        response = await engine.handle_async_request(request(url))
        monkeypatch.setattr(httpcore.Response, "aclose", fail)
        with pytest.raises(MemoryError):
            await body_of(response)

    assert repr(engine) == "<HttpxEngine <Slots 0 of 2 taken, 0 waiting>, 0 idle>"


async def test_another_server_has_a_connection_of_its_own(engine: HttpxEngine) -> None:
    """An idle connection serves its own origin only."""
    async with raw_server(answer) as one, raw_server(answer) as other:
        for url in (one, other):
            await body_of(await engine.handle_async_request(request(url)))

        assert repr(engine).endswith("1 idle>")


@pytest.mark.parametrize("how", ["excess", "at once", "closes"])
async def test_a_connection_that_cannot_be_used_again_is_not_kept(
    engine: HttpxEngine, how: str
) -> None:
    """What lies behind a reply belongs to no other, whether h11 has read it or not."""
    replies = {
        "excess": OK + b"HTTP/1.1 200 OK",
        "at once": OK + OK,
        "closes": OK.replace(b"Content-Type: application/json", b"Connection: close"),
    }

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(replies[how])
        await reader.read()

    async with raw_server(script) as url:
        assert await body_of(await engine.handle_async_request(request(url))) == b"{}"

    assert repr(engine).endswith("0 idle>")


# --- what looks inside httpcore ---------------------------------------------------------------


def test_what_httpcore_has_read_is_seen_in_the_releases_that_are_allowed() -> None:
    """The attribute is a private one of httpcore 1.0; another release needs another look."""
    project = tomllib.loads(PYPROJECT.read_text())["project"]

    assert "httpcore>=1.0.9,<1.1" in project["dependencies"]
    assert httpcore.__version__.startswith("1.0.")


async def test_a_connection_that_cannot_be_looked_into_is_not_used_again(
    engine: HttpxEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where another release of httpcore hides what it read, that is said, once for all calls."""
    httpcore_connection._warn_once.cache_clear()
    monkeypatch.setattr(httpcore_connection, "_excess_of", lambda http: http.renamed)
    with caplog.at_level(logging.WARNING, "gateway_sdk"):
        async with raw_server(answer) as url:
            for _ in range(3):
                assert await body_of(await engine.handle_async_request(request(url))) == b"{}"
                assert repr(engine).endswith("0 idle>")

    (record,) = caplog.records
    assert "every request has a connection of its own" in record.getMessage()
    assert httpcore.__version__ in record.getMessage()
    httpcore_connection._warn_once.cache_clear()


# --- loading ----------------------------------------------------------------------------------


async def test_httpcore_is_loaded_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is opened loads it in a thread, as the first call does without that."""
    threads: list[threading.Thread] = []

    def load() -> Any:
        threads.append(threading.current_thread())
        return load_module()

    monkeypatch.setattr(httpx_engine, "load_module", load)
    async with raw_server(answer) as url:
        monkeypatch.setattr(HttpxEngine, "module", None)
        async with GatewaySession(url, access_token="t") as session:
            assert len(threads) == 1
            await session.kyc.send_webhook()
        monkeypatch.setattr(HttpxEngine, "module", None)
        session = GatewaySession(url, access_token="t")
        await session.kyc.send_webhook()
        await session.kyc.send_webhook()
        await session.aclose()

    assert len(threads) == 2
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("fails", [True, False])
@pytest.mark.parametrize("is_collecting", [True, False])
def test_no_garbage_is_collected_while_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, is_collecting: bool, fails: bool
) -> None:
    """A collection would hold the event loop; after the loading all is as it was."""
    found = list[bool]()

    def load(_: str) -> Any:
        found.append(gc.isenabled())
        if fails:
            raise ImportError
        return httpcore_connection

    monkeypatch.setattr(httpx_engine, "import_module", load)
    (gc.enable if is_collecting else gc.disable)()
    try:
        with pytest.raises(ImportError) if fails else nullcontext():
            load_module()
        found.append(gc.isenabled())
    finally:
        gc.enable()

    assert found == [False, is_collecting]


def test_nothing_of_it_is_loaded_with_the_package() -> None:
    """Neither by importing the package nor by making a session."""
    code = """
import sys
from gateway_sdk import GatewaySession
GatewaySession("https://gateway.test", access_token="t")
assert not {"httpcore", "anyio"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True)
