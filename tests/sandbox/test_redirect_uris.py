import re
from urllib.parse import urlsplit

import pytest
from hypothesis import given, strategies as st

from gateway_sdk.sandbox import Sandbox
from gateway_sdk.sandbox._authorization import RedirectUris

HERE = {"127.0.0.1", "::1", "localhost"}


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1",
        "http://127.0.0.1/",
        "http://127.0.0.1:1/callback",
        "http://127.0.0.1:65535/a/b/c?d=e&f=%20",
        "http://127.0.0.1?d=e",
        "http://[::1]:8080/callback",
        "http://localhost:8080/callback;v=1",
    ],
)
def test_this_machine_is_allowed(uri: str) -> None:
    """Responses may go to this machine, with any port and path (RFC 8252, 7.3)."""
    assert uri in RedirectUris()


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "//127.0.0.1/callback",
        "https://127.0.0.1/callback",
        "http://evil.example/callback",
        "http://127.0.0.1.evil.example/",
        "http://127.0.0.2/",
        "http://2130706433/",
        "http://127.0.0.1:1@evil.example/",
        "http://user@127.0.0.1/",
        "http://[::1]:1@evil.example/",
        "http://127.0.0.1\\@evil.example/",
        "http://127.0.0.1:8080/a#b",
        "http://127.0.0.1:8080/a\r\nSet-Cookie: a=b",
        "http://127.0.0.1:8080/\n",
        "http://127.0.0.1:8080/a b",
        'http://127.0.0.1:8080/"><script>alert(1)</script>',
        "http://127.0.0.1:8080/\u00e4",
        "http://127.0.0.1:\u0661/",
        "http://127.0.0.1:0/",
        "http://127.0.0.1:65536/",
        "http://127.0.0.1:/",
        "javascript://127.0.0.1/%0aalert(1)",
    ],
)
def test_other_uris_are_not_allowed(uri: str) -> None:
    assert uri not in RedirectUris()


@given(
    st.from_regex(re.compile(r"http://[^\n]{0,3}(127\.0\.0\.1|localhost)[^\n]*"), fullmatch=True)
)
def test_what_is_allowed_is_this_machine(uri: str) -> None:
    """In every allowed URI, a parser finds one of the three hosts and no userinfo."""
    if uri in RedirectUris():
        assert urlsplit(uri).hostname in HERE
        assert "@" not in urlsplit(uri).netloc


def test_registered_uri_is_allowed_exactly() -> None:
    allowed = RedirectUris(["https://app.example/callback", "com.example.app:/callback"])

    assert "https://app.example/callback" in allowed
    assert "com.example.app:/callback" in allowed
    assert "https://app.example/callback/" not in allowed
    assert "https://app.example/callback?a=b" not in allowed
    assert "HTTPS://app.example/callback" not in allowed


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "app.example/callback",
        "https://app.example/callback#",
        "https://app.example/a\nb",
        "https://user@app.example/callback",
        "https://app.example;script-src/callback",
    ],
)
def test_invalid_redirect_uri_is_not_registered(uri: str) -> None:
    with pytest.raises(ValueError, match="not a redirect URI"):
        Sandbox(redirect_uris=[uri])
