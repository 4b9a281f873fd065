"""Calls over a real proxy: tunnels to TLS, plain forwarding, and all that a proxy does wrong."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    ConnectionFailedError,
    DeadlineExceededError,
    GatewaySession,
    Outcome,
    ReplyLostError,
    RetryPolicy,
)
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.deadlines import pass_deadlines
from tests.support.proxies import ESTABLISHED, HOST, Gateway, Proxy, server_context, serving

AT_ONCE = RetryPolicy(backoff=0)
CREDENTIALS = "user:pa%3Ass"
BASIC = b"Proxy-Authorization: Basic " + base64.b64encode(b"user:pa:ss")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without proxies."""
    for name in os.environ:
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    return monkeypatch


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that only these tests trust."""
    return Authority(tmp_path_factory.mktemp("authority"), "tests")


@dataclass
class Place:
    """A gateway, and a proxy that leads to it."""

    gateway: Gateway
    proxy: Proxy
    address: str

    def session(self, **options: Any) -> GatewaySession:
        """Make a session that knows the proxy."""
        given = {
            "base_url": f"https://{HOST}",
            "access_token": "token-1",
            "token_header": "token-2",
            "tenant_id": "acme",
            "retry": AT_ONCE,
            "proxy": f"http://{CREDENTIALS}@{self.address}",
        }
        return GatewaySession(**{**given, **options})


@asynccontextmanager
async def behind_a_proxy(authority: Authority | None, *answers: bytes) -> AsyncIterator[Place]:
    """Serve a gateway, over TLS if there is an authority, and a proxy before it."""
    gateway = Gateway()
    context = None if authority is None else server_context(authority)
    async with serving(gateway.handle, context) as port:
        proxy = Proxy(port, *answers)
        async with serving(proxy.handle) as proxy_port:
            yield Place(gateway, proxy, f"127.0.0.1:{proxy_port}")


@pytest.mark.parametrize("way", ["proxy=", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
async def test_a_call_goes_through_a_tunnel(
    environment: pytest.MonkeyPatch, authority: Authority, way: str
) -> None:
    """The proxy sees the gateway's name and its own credentials; the gateway sees the call."""
    async with behind_a_proxy(authority) as place:
        options: dict[str, Any] = {"verify": authority.path}
        if way != "proxy=":
            environment.setenv(way, f"http://{CREDENTIALS}@{place.address}")
            options["proxy"] = None
        async with place.session(**options) as session:
            for _ in range(3):
                assert await CALLS["cancel_order"](session) == {}

    (head,) = place.proxy.heads  # one tunnel is used again
    assert head.startswith(f"CONNECT {HOST}:443 HTTP/1.1\r\n".encode())
    assert BASIC in head.split(b"\r\n")
    for ours in (b"token-1", b"token-2", b"acme", b"orders"):
        assert ours not in head
    assert len(place.gateway.requests) == 3
    for request in place.gateway.requests:
        assert request.startswith(b"DELETE /wallet/1.0.0/w-1/orders/o-1 HTTP/1.1\r\n")
        assert b"Authorization: Bearer token-1\r\n" in request
        assert b"proxy" not in request.lower()


@pytest.mark.parametrize("path", ["", "/api"])
async def test_plain_http_is_forwarded(path: str) -> None:
    """The proxy gets the whole address and its credentials, and hands on what is the gateway's."""
    async with (
        behind_a_proxy(None) as place,
        place.session(base_url=f"http://{HOST}:81{path}", allow_insecure_http=True) as session,
    ):
        assert await CALLS["cancel_order"](session) == {}

    (head,) = place.proxy.heads
    target = f"http://{HOST}:81{path}/wallet/1.0.0/w-1/orders/o-1"
    assert head.startswith(f"DELETE {target} HTTP/1.1\r\n".encode())
    assert BASIC in head.split(b"\r\n")
    (request,) = place.gateway.requests
    assert f"Host: {HOST}:81\r\n".encode() in request
    assert b"Authorization: Bearer token-1\r\n" in request


async def test_without_a_proxy_the_gateway_gets_none_of_its_credentials(
    environment: pytest.MonkeyPatch,
) -> None:
    """A gateway on this machine is called directly, whatever the environment says."""
    gateway = Gateway()
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        environment.setenv(name, f"http://{CREDENTIALS}@127.0.0.1:1")
    async with (
        serving(gateway.handle) as port,
        GatewaySession(f"http://127.0.0.1:{port}", access_token="token-1", retry=None) as session,
    ):
        assert await CALLS["cancel_order"](session) == {}

    assert b"proxy" not in gateway.requests[0].lower()


async def test_a_given_proxy_is_for_this_machine_too(authority: Authority) -> None:
    """What is given with proxy= is used for every address."""
    async with (
        behind_a_proxy(None) as place,
        place.session(base_url="http://127.0.0.1:9") as session,
    ):
        assert await CALLS["cancel_order"](session) == {}

    assert place.proxy.heads[0].startswith(b"DELETE http://127.0.0.1:9/")


REFUSALS = {
    "407": b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
    "403": b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nnot me",
    "429": b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 99\r\nContent-Length: 0\r\n\r\n",
    "502": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    "503": b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
    "302": b"HTTP/1.1 302 Found\r\nLocation: https://login.test/\r\nContent-Length: 0\r\n\r\n",
    "hangs up in its head": b"HTTP/1.1 200 Conn",
    "garbage": b"\x15\x03\x01\x00\x02\x02F\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "hangs up behind its head": ESTABLISHED,
    "no TLS behind it": ESTABLISHED + b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
async def test_a_tunnel_that_is_refused_means_that_nothing_was_sent(
    authority: Authority, answer: bytes
) -> None:
    """However a proxy refuses, even what must happen once is tried again, and reported unsent."""
    async with (
        behind_a_proxy(authority, *[answer] * 3) as place,
        place.session(verify=authority.path) as session,
    ):
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)
        assert place.gateway.requests == []

        assert await CALLS["create_customer"](session) == {}  # the fourth time it works

    error = caught.value
    assert error.outcome is Outcome.NOT_SENT
    assert error.safe_to_repeat
    assert [(tried.outcome, tried.status) for tried in error.attempts] == [
        (Outcome.NOT_SENT, None)
    ] * 3
    assert f"no connection to {HOST}" in str(error)
    assert "pa:ss" not in str(error)


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
async def test_a_call_survives_a_tunnel_that_fails_once(
    authority: Authority, answer: bytes
) -> None:
    """A customer is created once, by the second attempt."""
    async with (
        behind_a_proxy(authority, answer) as place,
        place.session(verify=authority.path) as session,
    ):
        assert await CALLS["create_customer"](session) == {}

    assert len(place.gateway.requests) == 1
    assert len(place.proxy.heads) == 2


async def test_a_proxy_that_is_not_there(authority: Authority) -> None:
    """A proxy that nobody listens at is no connection."""
    async with behind_a_proxy(authority) as place:
        pass
    async with place.session(verify=authority.path) as session:
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)

    assert caught.value.outcome is Outcome.NOT_SENT
    assert len(caught.value.attempts) == 3


async def test_a_proxy_that_is_silent_for_too_long(authority: Authority) -> None:
    """The read time-out of a request for a tunnel is not that of a call."""
    async with (
        behind_a_proxy(authority, b"") as place,
        place.session(
            verify=authority.path, retry=None, timeout=httpx.Timeout(30, read=0.05)
        ) as session,
    ):
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)

    assert caught.value.outcome is Outcome.NOT_SENT


@pytest.mark.parametrize("way", ["deadline", "cancel"])
async def test_a_call_that_is_cut_off_in_its_tunnel_was_not_sent(
    authority: Authority, way: str
) -> None:
    """To ask a proxy for a tunnel is not to send a call."""
    async with (
        behind_a_proxy(authority, b"") as place,
        place.session(verify=authority.path) as session,
    ):
        call = asyncio.create_task(CALLS["create_customer"](session))
        await place.proxy.asked.wait()
        if way == "deadline":
            pass_deadlines(session)
            with pytest.raises(DeadlineExceededError) as caught:
                await call
            assert caught.value.outcome is Outcome.NOT_SENT
            assert [tried.outcome for tried in caught.value.attempts] == [Outcome.NOT_SENT]
        else:
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
        assert "0 of 50 taken" in repr(session._core._transport)


async def test_a_tunnel_that_breaks_behind_the_request(authority: Authority) -> None:
    """What was sent through a tunnel and not answered is unknown, and not sent again."""
    async with (
        behind_a_proxy(authority) as place,
        place.session(verify=authority.path) as session,
    ):
        place.gateway.hangs_up = True
        with pytest.raises(ReplyLostError) as caught:
            await CALLS["create_customer"](session)

    assert caught.value.outcome is Outcome.UNKNOWN
    assert len(place.gateway.requests) == 1
