"""Addresses of proxies: which are none, and that their passwords do not show."""

from typing import Any

import httpx
import pytest

from gateway_sdk import ConfigurationError, GatewaySession
from gateway_sdk._transport.proxy import proxy_for
from tests.support.secrecy import CANARY, texts_of

pytestmark = pytest.mark.usefixtures("environment")

GATEWAY = httpx.URL("https://gateway.test")


BAD = [
    "",
    "http://",
    "http://:8080",
    "//proxy",
    "ftp://user:{}@proxy",
    "http://user:{}@",
    "http://user:{}@:8080",
    "http://user:{}@proxy:port",
    "http://user:{}@proxy:0",
    "http://user:{}@proxy:65536",
    "http://user:{}@[::1",
    "http://user:{}@pro xy",
    "http://user:{}@pr{{o}}xy",
    "http://user:{}@proxy/path",
    "http://user:{}@proxy?query",
    "http://user:{}@proxy#fragment",
    "http://user:1/{}@proxy",
    "http://user:1?{}@proxy",
    "http://user:#{}@proxy",
    "user:{}@proxy\n",
    "socks4://user:{}@proxy",
]


@pytest.mark.parametrize("address", BAD)
def test_a_proxy_that_is_none_is_named_and_not_shown(
    environment: pytest.MonkeyPatch, address: str
) -> None:
    """The message says where the address was given, and nothing of what may be a password."""
    address = address.format(CANARY)
    with pytest.raises(ConfigurationError, match=r"^proxy (is|must|holds)") as caught:
        GatewaySession(str(GATEWAY), access_token="t", proxy=address)
    assert CANARY not in texts_of(caught.value)

    if address:  # which is as good as none there
        environment.setenv("ALL_PROXY", address)
        with pytest.raises(ConfigurationError, match=r"^ALL_PROXY (is|must|holds)") as caught:
            proxy_for(GATEWAY, None, trust_env=True)
        assert CANARY not in texts_of(caught.value)


@pytest.mark.parametrize("address", [b"http://proxy", 8080, httpx.URL("http://p"), ["http://p"]])
def test_a_proxy_of_another_type(address: Any) -> None:
    """An address is a str, as everywhere in the session."""
    with pytest.raises(ConfigurationError, match="proxy must be a str"):
        GatewaySession(str(GATEWAY), access_token="t", proxy=address)


async def test_a_variable_that_is_wrong_is_said_on_opening(
    environment: pytest.MonkeyPatch,
) -> None:
    """The environment is looked at when the session opens."""
    environment.setenv("HTTPS_PROXY", f"ftp://user:{CANARY}@proxy")

    with pytest.raises(ConfigurationError, match="HTTPS_PROXY must be"):
        async with GatewaySession(str(GATEWAY), access_token="t"):
            pass
    async with GatewaySession(str(GATEWAY), access_token="t", trust_env=False):
        pass


@pytest.mark.parametrize(
    ("userinfo", "auth"),
    [
        ("user:pass", (b"user", b"pass")),
        ("user:p%40%2F%3A%25", (b"user", b"p@/:%")),
        ("user", (b"user", b"")),
        ("", None),
        ("u%C3%A9:%E2%82%AC", ("u\xe9".encode(), "\u20ac".encode())),
    ],
)
def test_credentials_are_decoded_and_hidden(
    userinfo: str, auth: tuple[bytes, bytes] | None
) -> None:
    """User name and password are what was percent-encoded, and no text shows the password."""
    proxied = proxy_for(GATEWAY, f"http://{userinfo}@proxy", trust_env=False)

    assert proxied is not None
    assert proxied.raw_auth == auth
    assert str(proxied.url) == "http://proxy"
    password = auth[1].decode() if auth else ""
    assert not password or password not in repr(proxied)
