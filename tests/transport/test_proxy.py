"""Which proxy is on the way to the gateway, and which addresses are none."""

from typing import Any

import httpx
import pytest
from hypothesis import given, strategies as st

from gateway_sdk import ConfigurationError, GatewaySession
from gateway_sdk._transport import proxy
from gateway_sdk._transport.proxy import proxy_for
from tests.support.secrecy import CANARY, texts_of

pytestmark = pytest.mark.usefixtures("environment")

GATEWAY = "https://gateway.test"


def found(base_url: str = GATEWAY, given: Any = None, *, trust_env: bool = True) -> str | None:
    proxied = proxy_for(httpx.URL(base_url), given, trust_env=trust_env)
    return None if proxied is None else str(proxied.url)


@pytest.mark.parametrize("case", [str.upper, str.lower])
@pytest.mark.parametrize(
    ("variables", "base_url", "expected"),
    [
        ({"https_proxy": "http://p:1"}, "https://gateway.test", "http://p:1"),
        ({"https_proxy": "http://p:1"}, "http://gateway.test", None),
        ({"http_proxy": "http://p:1"}, "http://gateway.test", "http://p:1"),
        ({"http_proxy": "http://p:1"}, "https://gateway.test", None),
        ({"all_proxy": "http://p:1"}, "https://gateway.test", "http://p:1"),
        ({"all_proxy": "http://p:1"}, "http://gateway.test", "http://p:1"),
        (
            {"all_proxy": "http://p:1", "https_proxy": "https://q:2"},
            "https://gateway.test",
            "https://q:2",
        ),
        ({"https_proxy": "p:1"}, "https://gateway.test", "http://p:1"),
        ({"https_proxy": ""}, "https://gateway.test", None),
        ({"https_proxy": "", "all_proxy": "p:1"}, "https://gateway.test", "http://p:1"),
        ({"ftp_proxy": "http://p:1"}, "https://gateway.test", None),
        ({}, "https://gateway.test", None),
    ],
)
def test_the_environment_names_a_proxy(
    environment: pytest.MonkeyPatch,
    case: Any,
    variables: dict[str, str],
    base_url: str,
    expected: str | None,
) -> None:
    """The variable of the gateway's scheme counts, then ALL_PROXY, in either case."""
    for name, value in variables.items():
        environment.setenv(case(name), value)

    assert found(base_url) == expected
    assert found(base_url, trust_env=False) is None
    assert found(base_url, "http://given:9") == "http://given:9"
    assert found(base_url, "http://given:9", trust_env=False) == "http://given:9"


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "LOCALHOST", "localhost:8080"]
)
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"])
def test_this_machine_has_no_proxy_unless_it_is_given(
    environment: pytest.MonkeyPatch, variable: str, host: str
) -> None:
    """No variable sends a call to this machine over another one; proxy= does."""
    environment.setenv(variable, "http://p:1")

    for scheme in ("http", "https"):
        assert found(f"{scheme}://{host}") is None
        assert found(f"{scheme}://{host}", "http://p:1") == "http://p:1"


@pytest.mark.parametrize(
    ("no_proxy", "base_url", "covered"),
    [
        ("*", "https://gateway.test", True),
        ("gateway.test", "https://gateway.test", True),
        ("gateway.test", "https://GATEWAY.test", True),
        ("a.test, gateway.test ,b.test", "https://gateway.test", True),
        ("test", "https://gateway.test", True),
        (".test", "https://gateway.test", True),
        ("gateway.test", "https://api.gateway.test", True),
        ("*.gateway.test", "https://api.gateway.test", True),
        ("gateway.test", "https://mygateway.test", False),
        ("api.gateway.test", "https://gateway.test", False),
        ("gateway.test.", "https://gateway.test", True),
        ("gateway.test", "https://gateway.test.", True),
        ("gateway.test.", "https://gateway.test.", True),
        ("test.", "https://gateway.test.:8443", True),
        ("gateway.test:8443", "https://gateway.test.:8443", True),
        ("gateway.test:8443", "https://gateway.test.", False),
        ("other.test.", "https://gateway.test.", False),
        (".", "https://gateway.test", False),
        ("", "https://gateway.test", False),
        ("*.", "https://gateway.test", False),
        ("gateway.test:443", "https://gateway.test", True),
        ("gateway.test:80", "http://gateway.test", True),
        ("gateway.test:80", "https://gateway.test", False),
        ("gateway.test:8443", "https://gateway.test:8443", True),
        ("gateway.test:http", "https://gateway.test", False),
        (":443", "https://gateway.test", False),
        ("10.1.2.3", "https://10.1.2.3", True),
        ("10.1.2.3", "https://10.1.2.4", False),
        (f"gateway.test:{'4' * 5000}", "https://gateway.test", False),
        ("10.1.2.3:8443", "https://10.1.2.3:8443", True),
        ("10.0.0.0/8", "https://10.1.2.3", True),
        ("10.1.2.3/8", "https://10.9.9.9", True),  # host bits do not matter
        ("10.0.0.0/33", "https://10.0.0.0", False),
        ("10.0.0.0/8", "https://gateway.test", False),
        ("0.0.0.0/0", "https://[2001:db8::1]", False),
        ("2001:db8::1", "https://[2001:db8::1]", True),
        ("[2001:db8::1]", "https://[2001:db8::1]", True),
        ("[2001:db8::1]:8443", "https://[2001:db8::1]:8443", True),
        ("[2001:db8::1]:8443", "https://[2001:db8::1]", False),
        ("2001:db8::2", "https://[2001:db8::1]", False),
        ("2001:db8::/32", "https://[2001:db8::1]", True),
        ("[2001:db8::]/32", "https://[2001:db8::1]", False),  # no notation that anybody uses
        ("::/0", "https://10.1.2.3", False),
        ("b\xfccher.test", "https://b\xfccher.test", True),
        ("xn--bcher-kva.test", "https://b\xfccher.test", True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("variable", ["NO_PROXY", "no_proxy"])
def test_no_proxy_names_hosts_without_one(
    environment: pytest.MonkeyPatch, variable: str, no_proxy: str, base_url: str, covered: bool
) -> None:
    environment.setenv("ALL_PROXY", "http://p:1")
    environment.setenv(variable, no_proxy)

    assert (found(base_url) is None) == covered
    assert found(base_url, "http://given:9") == "http://given:9"


@given(st.text().filter(lambda text: "\x00" not in text and text.isprintable()))
def test_no_text_in_no_proxy_is_an_error(no_proxy: str) -> None:
    """Whatever somebody wrote there, a session can be opened."""
    for base_url in (GATEWAY, "https://10.1.2.3", "https://[2001:db8::1]:1"):
        for entry in no_proxy.split(","):
            assert proxy._covers(entry.strip(), httpx.URL(base_url)) in (True, False)


# --- addresses ----------------------------------------------------------------------------


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
        GatewaySession(GATEWAY, access_token="t", proxy=address)
    assert CANARY not in texts_of(caught.value)

    if address:  # which is as good as none there
        environment.setenv("ALL_PROXY", address)
        with pytest.raises(ConfigurationError, match=r"^ALL_PROXY (is|must|holds)") as caught:
            proxy_for(httpx.URL(GATEWAY), None, trust_env=True)
        assert CANARY not in texts_of(caught.value)


async def test_a_variable_that_is_wrong_is_said_on_opening(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("HTTPS_PROXY", f"ftp://user:{CANARY}@proxy")

    with pytest.raises(ConfigurationError, match="HTTPS_PROXY must be"):
        async with GatewaySession(GATEWAY, access_token="t"):
            pass
    async with GatewaySession(GATEWAY, access_token="t", trust_env=False):
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
    proxied = proxy_for(httpx.URL(GATEWAY), f"http://{userinfo}@proxy", trust_env=False)

    assert proxied is not None
    assert proxied.raw_auth == auth
    assert str(proxied.url) == "http://proxy"
    password = auth[1].decode() if auth else ""
    assert not password or password not in repr(proxied)
