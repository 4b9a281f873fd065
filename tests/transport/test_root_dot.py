"""The name of a host with the dot of the root at its end, as it is written in Kubernetes."""

import socket
import ssl
from typing import Any, Final

import pytest

from gateway_sdk import GatewaySession
from gateway_sdk._url import is_loopback
from tests.support.calls import CALLS
from tests.support.certificates import Papers
from tests.support.proxies import HOST, Gateway, Proxy
from tests.support.raw_server import serving

DOTTED: Final = f"{HOST}."


def naming(context: ssl.SSLContext) -> list[str | None]:
    """Return a list of the names that clients ask a server for."""
    names: list[str | None] = []
    context.sni_callback = lambda _, name, __: names.append(name)
    return names


@pytest.mark.asyncio_loop  # uvloop's resolver is not Python's
@pytest.mark.parametrize("is_proxy", [True, False])
async def test_a_gateway_and_a_proxy(
    monkeypatch: pytest.MonkeyPatch, papers: Papers, is_proxy: bool
) -> None:
    """TLS has the name without the dot; the proxy and the field Host have it as it was given."""
    context = papers.authority.server(HOST)
    names, gateway = naming(context), Gateway()
    looked_up: list[str] = []
    real = socket.getaddrinfo

    def look_up(host: str, *arguments: Any, **options: Any) -> Any:
        if options.get("flags"):
            return real(host, *arguments, **options)
        looked_up.append(host)
        return real("127.0.0.1", *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with serving(gateway.handle, context) as port:
        proxy = Proxy(port)
        async with serving(proxy.handle, papers.authority.server(HOST)) as proxy_port:
            options: dict[str, Any] = {"verify": papers.authority.path}
            if is_proxy:
                options["proxy"] = f"https://{DOTTED}:{proxy_port}"
            async with GatewaySession(
                f"https://{DOTTED}:{port}", access_token="t", **options
            ) as session:
                assert await CALLS["order_history"](session) == {}

    assert names == [HOST]
    assert looked_up == [DOTTED]  # with the dot: without one, search domains are tried
    assert len(proxy.heads) == is_proxy
    assert all(head.startswith(f"CONNECT {DOTTED}:{port} ".encode()) for head in proxy.heads)
    assert f"\r\nHost: {DOTTED}:{port}\r\n".encode() in gateway.requests[0]


@pytest.mark.parametrize(
    ("host", "here"),
    [("localhost.", True), ("localhost", True), ("localhost..", False), ("127.0.0.1.", False)],
)
def test_this_machine(host: str, here: bool) -> None:
    """An address with a dot is a name, which may mean any machine."""
    assert is_loopback(host) == here
