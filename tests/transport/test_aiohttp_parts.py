"""What the aiohttp engine is made of: the package, and a look at the system's sockets."""

import asyncio
import builtins
import select
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import ConfigurationError, ConnectionFailedError, GatewaySession, RateLimit
from gateway_sdk._transport.aiohttp_connector import is_readable
from gateway_sdk._transport.aiohttp_exchange import AiohttpExchange
from gateway_sdk._transport.factory import ENGINES
from gateway_sdk._transport.transmission import Transmission
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.failing_steps import turns
from tests.support.proxies import Gateway, server_context, serving


def test_without_aiohttp_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is refused when the session is made, before anything is sent."""
    monkeypatch.delitem(sys.modules, "gateway_sdk._transport.aiohttp_engine", raising=False)
    monkeypatch.setitem(sys.modules, "aiohttp", None)

    with pytest.raises(ConfigurationError, match=r"pip install 'gateway-sdk\[aiohttp\]'"):
        GatewaySession("https://gateway.test", access_token="t", engine="aiohttp")


@pytest.mark.parametrize(
    "options",
    [{"engine": "httpx"}, {"transport": httpx.AsyncHTTPTransport()}],
    ids=["httpx", "a transport"],
)
def test_aiohttp_is_loaded_by_who_uses_it_only(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """It takes its time, and not everybody has it."""
    real = builtins.__import__

    def importing(name: str, *given: Any) -> Any:
        assert "aiohttp" not in name
        return real(name, *given)

    monkeypatch.setattr(builtins, "__import__", importing)
    GatewaySession("https://gateway.test", access_token="t", **options)


async def test_aiohttp_is_loaded_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes 100 ms must not hold up the event loop in the middle of its work."""
    session = GatewaySession("http://127.0.0.1:1", access_token="t", engine="aiohttp", retry=None)
    real = builtins.__import__

    def importing(name: str, *given: Any) -> Any:
        assert name in sys.modules
        return real(name, *given)

    monkeypatch.setattr(builtins, "__import__", importing)
    async with session:
        with pytest.raises(ConnectionFailedError):
            await CALLS["order_history"](session)


@pytest.mark.parametrize("system", ["poll", "Windows"])
def test_what_is_readable(monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    """Something to read is seen where there is no poll too, as is the end, and nothing is taken."""
    if system == "Windows":
        monkeypatch.delattr(select, "poll")
    with ExitStack() as stack:
        ours, theirs = map(stack.enter_context, socket.socketpair())
        assert not is_readable(ours)
        theirs.send(b"x")
        assert is_readable(ours)
        assert ours.recv(9) == b"x"
        assert not is_readable(ours)
        theirs.shutdown(socket.SHUT_WR)
        assert is_readable(ours)


async def test_what_nobody_asks_of_a_content_is_refused() -> None:
    """No part of aiohttp's client shows what is sent, or sends it without regard to its length."""
    content: Any = AiohttpExchange([], httpx.ByteStream(b"x"), Transmission(sent=False), None)

    with pytest.raises(NotImplementedError):
        content.decode()
    with pytest.raises(NotImplementedError):
        await content.write(None)


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_rate_limit_reaches_the_engine(engine: Any) -> None:
    """What a session is given as its limit holds back its second request."""
    gateway = Gateway()
    async with (
        serving(gateway.handle) as port,
        GatewaySession(
            f"http://127.0.0.1:{port}",
            access_token="t",
            engine=engine,
            rate_limit=RateLimit(1, 1000.0),
        ) as session,
    ):
        await CALLS["order_history"](session)
        waiting = asyncio.create_task(CALLS["order_history"](session))
        await turns(50)
        assert "1 of 50 taken" in repr(session._caller.client._transport)
        waiting.cancel()
        await asyncio.wait([waiting])

    assert len(gateway.requests) == 1


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_server_is_told_that_we_speak_one_protocol(engine: Any, tmp_path: Path) -> None:
    """One that would rather have HTTP/2 is asked for HTTP/1.1 in the handshake (ALPN)."""
    authority, chosen = Authority(tmp_path, "tests"), []
    context = server_context(authority, "127.0.0.1")
    context.set_alpn_protocols(["h2", "http/1.1"])

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await Gateway().handle(reader, writer)

    async with (
        serving(handle, context) as port,
        GatewaySession(
            f"https://127.0.0.1:{port}", access_token="t", engine=engine, verify=authority.path
        ) as session,
    ):
        await CALLS["order_history"](session)

    assert chosen == ["http/1.1"]
