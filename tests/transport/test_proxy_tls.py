"""TLS on the way over a proxy: with the gateway in the tunnel, and with the proxy itself."""

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import ConnectionFailedError, GatewaySession, Outcome
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.papers import Papers, demanding
from tests.support.proxies import Gateway, Proxy, server_context, serving

BASIC = b"Proxy-Authorization: Basic " + base64.b64encode("ué:€:".encode())


def session(proxy: str, papers: Papers, **options: Any) -> GatewaySession:
    """Make a session that trusts the authority of the papers, over a proxy."""
    given = {"access_token": "t", "tenant_id": "acme", "verify": papers.authority.path, **options}
    return GatewaySession(**{"base_url": "https://gateway.test", "proxy": proxy, **given})


async def test_a_certificate_is_shown_to_the_gateway_and_not_to_the_proxy(papers: Papers) -> None:
    """`verify` is for an https proxy as well; `cert` is for the gateway within its tunnel."""
    gateway = Gateway()
    async with serving(gateway.handle, demanding(papers, "gateway.test")) as port:
        proxy = Proxy(port)
        context = server_context(papers.authority, "127.0.0.1")
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
    tls = server_context(papers.authority, "gateway.test") if scheme == "https" else None
    async with serving(gateway.handle, tls) as port:
        proxy = Proxy(port)
        async with (
            serving(proxy.handle, server_context(papers.authority, "127.0.0.1")) as secure,
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
    assert BASIC in proxy.heads[0].split(b"\r\n")
    assert b"proxy-" not in gateway.requests[0].lower()


@pytest.mark.parametrize("base_url", ["https://gateway.test", "http://gateway.test"])
async def test_a_proxy_that_is_not_trusted_is_not_used(
    tmp_path: Path, papers: Papers, base_url: str
) -> None:
    """A proxy with a certificate of somebody else's sees nothing."""
    proxy = Proxy(1)
    async with (
        serving(proxy.handle, server_context(papers.authority, "127.0.0.1")) as port,
        session(
            f"https://127.0.0.1:{port}",
            papers,
            base_url=base_url,
            verify=Authority(tmp_path, "other").path,
            allow_insecure_http=True,
            retry=None,
        ) as sending,
    ):
        with pytest.raises(ConnectionFailedError):
            await CALLS["create_customer"](sending)

    assert proxy.heads == []


@pytest.mark.parametrize(
    ("named", "trusted"), [("gateway.test", False), ("proxy.test", True)], ids=["issuer", "name"]
)
async def test_a_proxy_cannot_pretend_to_be_the_gateway(
    tmp_path: Path, papers: Papers, named: str, trusted: bool
) -> None:
    """Within the tunnel the gateway's certificate is checked, before anything is sent."""
    gateway = Gateway()
    authority = papers.authority if trusted else Authority(tmp_path, "other")
    async with serving(gateway.handle, server_context(papers.authority, named)) as port:
        proxy = Proxy(port)
        async with serving(proxy.handle) as proxy_port:
            address = f"http://127.0.0.1:{proxy_port}"
            async with session(address, papers, verify=authority.path, retry=None) as sending:
                with pytest.raises(ConnectionFailedError) as caught:
                    await CALLS["create_customer"](sending)

    assert caught.value.outcome is Outcome.NOT_SENT
    assert len(proxy.heads) == 1
    assert gateway.requests == []
