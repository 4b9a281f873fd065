import base64
import hashlib
import re
from html import escape

import httpx
import pytest

from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Sandbox
from gateway_sdk.sandbox._authorization import TOKEN_KINDS
from tests.sandbox.logins import ALLOWED, ASKED, CALLBACK, DENIED, NASTY, answer_of


async def test_page_has_the_fields_that_others_rely_on(client: httpx.AsyncClient) -> None:
    reply = await client.get(AUTHORIZE_PATH, params=ASKED)
    page = reply.text

    assert reply.status_code == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert f"<strong>{SANDBOX_CLIENT_ID}</strong>" in page
    assert '<dd id="gateway">sandbox</dd>' in page
    assert '<dd id="destination">127.0.0.1:53412</dd>' in page
    assert '<form id="login" method="post" action="/authorize">' in page
    assert '<input id="account" name="account" value="ada@example.com"' in page
    assert re.findall(r'name="token" id="token-(\w+)" value="\1"', page) == list(TOKEN_KINDS)
    assert re.findall(r'id="token-(\w+)" value="\w+" checked', page) == ["hour"]
    assert re.findall(r'<button id="(\w+)" name="decision" value="\1"', page) == ["allow", "deny"]
    for name, value in ASKED.items():
        assert f'<input type="hidden" name="{name}" value="{value}">' in page
    assert 'name="scope"' not in page


async def test_page_needs_nothing_but_itself(client: httpx.AsyncClient) -> None:
    """The page has no script and loads nothing; its policy allows its one style by its hash."""
    page = await client.get(AUTHORIZE_PATH, params=ASKED)

    style = page.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert page.headers["Content-Security-Policy"] == (
        f"default-src 'none'; style-src 'sha256-{digest}';"
        " form-action 'self' http://127.0.0.1:53412; frame-ancestors 'none'; base-uri 'none'"
    )
    assert not re.search(r"<script|<link|<img| src=| href=| style=|url\(|@import", page.text)


@pytest.mark.parametrize(
    ("redirect_uri", "destination", "target"),
    [
        ("http://localhost/cb", "localhost", "http://localhost"),
        ("http://[::1]:8080/cb", "[::1]:8080", "http:"),
        ("https://app.example/cb", "app.example", "https://app.example"),
        ("com.example.app:/cb", "com.example.app:", "com.example.app:"),
    ],
)
async def test_policy_allows_the_redirect(redirect_uri: str, destination: str, target: str) -> None:
    """The policy allows the redirect after the form, as far as a policy can name it."""
    registered = ["https://app.example/cb", "com.example.app:/cb"]
    transport = Sandbox(redirect_uris=registered).transport()
    async with httpx.AsyncClient(transport=transport, base_url="http://s") as client:
        page = await client.get(AUTHORIZE_PATH, params={**ASKED, "redirect_uri": redirect_uri})
        denied = await client.post(AUTHORIZE_PATH, data={**DENIED, "redirect_uri": redirect_uri})

    assert f"form-action 'self' {target};" in page.headers["Content-Security-Policy"]
    assert f'<dd id="destination">{destination}</dd>' in page.text
    assert answer_of(denied, redirect_uri)["error"] == "access_denied"


async def test_page_escapes_what_it_was_given(client: httpx.AsyncClient) -> None:
    given = {**ASKED, "state": NASTY, "scope": NASTY, "redirect_uri": f"{CALLBACK}?a='&b=c"}

    page = await client.get(AUTHORIZE_PATH, params=given, headers={"Host": NASTY})

    assert "<script" not in page.text
    assert page.text.count(escape(NASTY)) == 3
    assert escape(given["redirect_uri"]) in page.text


async def test_unknown_parameter_is_ignored(client: httpx.AsyncClient) -> None:
    page = await client.get(AUTHORIZE_PATH, params={**ASKED, "nonce": "canary"})

    assert page.status_code == 200
    assert "canary" not in page.text


async def test_nothing_is_stored_or_passed_on(client: httpx.AsyncClient) -> None:
    replies = [
        await client.get(AUTHORIZE_PATH, params=ASKED),
        await client.get(AUTHORIZE_PATH),
        await client.post(AUTHORIZE_PATH, data=ALLOWED),
        await client.post(AUTHORIZE_PATH, data=DENIED),
    ]

    for reply in replies:
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["Referrer-Policy"] == "no-referrer"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["X-Frame-Options"] == "DENY"
