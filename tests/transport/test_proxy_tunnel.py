"""Calls over a proxy: tunnels to TLS, plain forwarding, and TLS with the proxy itself."""

import asyncio
import base64
import ssl
from typing import Any

import pytest

from gateway_sdk import ConnectionFailedError, GatewaySession, Outcome
from tests.support import proxies
from tests.support.calls import CALLS
from tests.support.certificates import Authority, Papers
from tests.support.proxies import (
    BASIC,
    CREDENTIALS,
    ESTABLISHED,
    HOST,
    Gateway,
    Proxy,
    behind_a_proxy,
)
from tests.support.raw_server import serving

pytestmark = pytest.mark.usefixtures("environment")


async def test_calls_that_wait_for_another_name_what_failed_too(authority: Authority) -> None:
    """The tunnel was made; the certificate of the gateway behind it is unknown."""
    async with behind_a_proxy(authority) as place, place.session(retry=None) as session:
        for number in (1, 3):
            calls = (CALLS["cancel_order"](session) for _ in range(number))
            for error in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(error, ConnectionFailedError)
                assert f"no connection to {HOST}:443: its certificate" in str(error)


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
        assert request.startswith(
            b"DELETE /wallet/1.0.0/wallet-0004/orders/order-0056 HTTP/1.1\r\n"
        )
        assert b"Authorization: Bearer token-1\r\n" in request
        assert b"proxy" not in request.lower()


LENIENT = {
    "bare LF": ESTABLISHED.replace(b"\r", b""),
    "a length": ESTABLISHED.replace(b"\r\n\r\n", b"\r\nContent-Length: 0\r\n\r\n"),
    "a length and chunks": ESTABLISHED.replace(
        b"\r\n\r\n", b"\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
    ),
}


@pytest.mark.parametrize("established", LENIENT.values(), ids=LENIENT)
async def test_the_answer_to_connect_may_be_odd(
    monkeypatch: pytest.MonkeyPatch, authority: Authority, established: bytes
) -> None:
    """It has no body, and nothing else is read by its rules (RFC 9110, 9.3.6)."""
    monkeypatch.setattr(proxies, "ESTABLISHED", established)
    async with behind_a_proxy(authority) as place, place.session(verify=authority.path) as session:
        assert await CALLS["create_customer"](session) == {}


@pytest.mark.parametrize("authority", [HOST, f"{HOST}:81/api", "127.0.0.1:9"])
async def test_plain_http_is_forwarded(authority: str) -> None:
    """The proxy gets the whole address and its credentials, and hands on what is the gateway's.

    What is given with proxy= is used for this machine too.
    """
    async with (
        behind_a_proxy(None) as place,
        place.session(base_url=f"http://{authority}", allow_insecure_http=True) as session,
    ):
        assert await CALLS["cancel_order"](session) == {}

    (head,) = place.proxy.heads
    target = f"http://{authority}/wallet/1.0.0/wallet-0004/orders/order-0056"
    assert head.startswith(f"DELETE {target} HTTP/1.1\r\n".encode())
    assert BASIC in head.split(b"\r\n")
    (request,) = place.gateway.requests
    assert f"Host: {authority.partition('/')[0]}\r\n".encode() in request
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


# --- TLS ----------------------------------------------------------------------------------


def session(proxy: str, papers: Papers, **options: Any) -> GatewaySession:
    given = {"access_token": "t", "tenant_id": "acme", "verify": papers.authority.path, **options}
    return GatewaySession(**{"base_url": "https://gateway.test", "proxy": proxy, **given})


async def test_a_certificate_is_shown_to_the_gateway_and_not_to_the_proxy(papers: Papers) -> None:
    """`verify` is for an https proxy as well; `cert` is for the gateway within its tunnel."""
    gateway = Gateway()
    async with serving(gateway.handle, papers.authority.demanding("gateway.test")) as port:
        proxy = Proxy(port)
        context = papers.authority.server("127.0.0.1")
        context.verify_mode = ssl.CERT_OPTIONAL  # asks, and takes no for an answer
        context.load_verify_locations(papers.authority.path)
        async with serving(proxy.handle, context) as proxy_port:
            address = f"https://127.0.0.1:{proxy_port}"
            async with session(address, papers, cert=papers.both) as sending:
                assert await CALLS["order_history"](sending) == {}

    assert proxy.peers == [None]
    assert gateway.peers != [None]
    assert len(gateway.requests) == 1


@pytest.mark.parametrize("given", ["a path", "a context"])
@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_a_proxy_is_verified_too(scheme: str, given: str, papers: Papers) -> None:
    """`verify` is for an https proxy as well, whether the gateway behind it has TLS or not."""
    gateway, path = Gateway(), papers.authority.path
    verify = path if given == "a path" else ssl.create_default_context(cafile=path)
    tls = papers.authority.server("gateway.test") if scheme == "https" else None
    async with serving(gateway.handle, tls) as port:
        proxy = Proxy(port)
        async with (
            serving(proxy.handle, papers.authority.server("127.0.0.1")) as secure,
            session(
                f"https://u%C3%A9:%E2%82%AC%3A@127.0.0.1:{secure}",
                papers,
                base_url=f"{scheme}://gateway.test",
                verify=verify,
                allow_insecure_http=True,
            ) as sending,
        ):
            for _ in range(2):
                assert await CALLS["order_history"](sending) == {}

    assert len(gateway.requests) == 2
    basic = b"Proxy-Authorization: Basic " + base64.b64encode("ué:€:".encode())
    assert basic in proxy.heads[0].split(b"\r\n")
    assert b"proxy-" not in gateway.requests[0].lower()


async def test_a_proxy_cannot_pretend_to_be_the_gateway(papers: Papers) -> None:
    """Within the tunnel the gateway's certificate is checked, before anything is sent."""
    gateway = Gateway()
    async with serving(gateway.handle, papers.authority.server("proxy.test")) as port:
        proxy = Proxy(port)
        async with serving(proxy.handle) as proxy_port:
            address = f"http://127.0.0.1:{proxy_port}"
            async with session(address, papers, retry=None) as sending:
                with pytest.raises(ConnectionFailedError) as caught:
                    await CALLS["create_customer"](sending)

    assert caught.value.outcome is Outcome.NOT_SENT
    assert len(proxy.heads) == 1
    assert gateway.requests == []
