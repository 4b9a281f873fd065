"""`connect`: a token and a connection that the next call uses, and no request."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import respx

from gateway_sdk import (
    Advice,
    AuthError,
    ConnectionFailedError,
    GatewayError,
    GatewaySession,
    GatewayTransport,
    LoginRequiredError,
    Observer,
    Outcome,
    RetryPolicy,
)
from gateway_sdk.auth import MemoryStore, SharedTokenSource, Token
from tests.support.certificates import Authority
from tests.support.ports import free_port
from tests.support.raw_server import Server, raw_server, serving


def session(url: str, **options: Any) -> GatewaySession:
    given: dict[str, Any] = {"access_token": "token", "tenant_id": "acme", "retry": None}
    return GatewaySession(url, **{**given, **options})


async def lasting() -> Token:
    return Token("token", expires_at=time.time() + 3600)


@pytest.mark.parametrize(("checks", "token"), [(1, "token"), (5, lasting)])
async def test_the_next_call_uses_its_connection(checks: int, token: Any) -> None:
    """Checks that are repeated leave one connection, and no check sends a request."""
    server = Server()
    async with raw_server(server.handle) as url, session(url, access_token=token) as gateway:
        for _ in range(checks):
            await gateway.connect()
        await gateway.wallet.spot_trading_available_balance()
        opened, last = len(server.received), server.received[-1]

    assert opened == checks
    assert len(server.requests) == len(last) == 1


async def test_over_tls_the_handshake_is_done(tmp_path: Path) -> None:
    server, authority = Server(), Authority(tmp_path, "ours")
    async with serving(server.handle, authority.server("localhost")) as port:
        url = f"https://localhost:{port}"
        async with session(url, verify=authority.path) as gateway:
            await gateway.connect()
            await gateway.wallet.spot_trading_available_balance()
        async with session(url) as stranger:
            with pytest.raises(ConnectionFailedError, match="certificate") as caught:
                await stranger.connect()

    assert caught.value.advice is Advice.FIX
    assert len(server.received) == 1


async def refuse() -> str:
    raise LoginRequiredError("log in")


@pytest.mark.parametrize(
    ("options", "kind", "advice", "attempts"),
    [
        pytest.param({}, ConnectionFailedError, Advice.REPEAT, 1, id="away"),
        pytest.param(
            {"retry": RetryPolicy(attempts=3, connect_wait=0)},
            ConnectionFailedError,
            Advice.REPEAT,
            3,
            id="away, with retries",
        ),
        pytest.param({"access_token": refuse}, AuthError, Advice.LOG_IN, 0, id="no token"),
        pytest.param(
            {"access_token": Token("t", expires_at=1.0)},
            LoginRequiredError,
            Advice.LOG_IN,
            0,
            id="expired",
        ),
    ],
)
async def test_its_errors_are_those_of_a_call(
    options: dict[str, Any], kind: type[GatewayError], advice: Advice, attempts: int
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with session(f"http://127.0.0.1:{free_port()}", sleep=sleep, **options) as gateway:
        with pytest.raises(kind, match=r"^connect: ") as caught:
            await gateway.connect()

    error = caught.value
    assert (error.operation, error.outcome) == ("connect", Outcome.NOT_SENT)
    assert (error.advice, len(error.attempts)) == (advice, attempts)
    assert len(waits) == max(0, attempts - 1)


class Counting(Observer):
    calls = 0

    def call_started(self, call: Any) -> None:
        self.calls += 1


@pytest.mark.parametrize("through", ["transport", "http_client", "our own in http_client", "respx"])
async def test_without_connections_of_its_own_it_gets_the_token(
    caplog: pytest.LogCaptureFixture, through: str
) -> None:
    """It says so in the log; nothing is sent, and no observer counts a call."""
    caplog.set_level(logging.INFO, "gateway_sdk")
    asked, sent, seen = 0, 0, Counting()

    async def token() -> str:
        nonlocal asked
        asked += 1
        return "token"

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal sent
        sent += 1
        return httpx.Response(200, json={})

    ways: dict[str, Callable[[], dict[str, Any]]] = {
        "transport": lambda: {"transport": httpx.MockTransport(answer)},
        "http_client": lambda: {
            "http_client": httpx.AsyncClient(transport=httpx.MockTransport(answer))
        },
        "our own in http_client": lambda: {
            "http_client": httpx.AsyncClient(transport=GatewayTransport())
        },
        "respx": dict,
    }
    given = ways[through]()
    with respx.mock(assert_all_called=False) as routes:
        if through != "respx":
            routes.stop(clear=False)
        route = routes.route().mock(side_effect=answer)
        async with session(
            "http://127.0.0.1:1", access_token=token, observers=[seen], **given
        ) as gateway:
            await gateway.connect()

    assert (asked, sent, route.called, seen.calls) == (1, 0, False, 0)
    assert "connect: a token only" in caplog.text
    if client := given.get("http_client"):
        await client.aclose()


async def test_it_does_not_take_a_refused_token_for_one_that_works() -> None:
    """Without a request nobody knows: the pause after a 401 goes on."""
    store = MemoryStore()
    await store.save(Token("t"))
    source = SharedTokenSource(store)
    await source.token()
    source.reject(Token("t"))
    async with session("http://127.0.0.1:1", access_token=source) as gateway:
        with pytest.raises(LoginRequiredError, match="refused"):
            await gateway.connect()
