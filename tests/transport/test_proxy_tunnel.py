"""Calls over a real proxy: tunnels to TLS, and plain forwarding."""

from typing import Any

import pytest

from gateway_sdk import (
    GatewaySession,
)
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.proxies import BASIC, CREDENTIALS, HOST, Gateway, behind_a_proxy, serving

pytestmark = pytest.mark.usefixtures("environment")


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
