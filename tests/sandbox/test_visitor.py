import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from threading import Semaphore
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx
import pytest

from gateway_sdk.auth import ImplicitFlow, login
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Sandbox, Visitor
from tests.support.raw_server import raw_server, read_request

STATE = """<script>"'&amp; +%20;=#"""
PAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
TAKEN = b"HTTP/1.1 204 No Content\r\n\r\n"
GONE = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"


def moved(status: int, to: str) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode()


@asynccontextmanager
async def answering(*replies: bytes) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """Provide a server with one reply per connection, and the requests that it received."""
    waiting, requests = list(replies), list[bytes]()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(waiting.pop(0))
        await writer.drain()

    async with raw_server(handle) as base_url:
        yield base_url, requests


@pytest.fixture
async def base_url(sandbox: Sandbox) -> AsyncIterator[str]:
    async with sandbox.serve() as base_url:
        yield base_url


def authorization_url(base_url: str, redirect_uri: str, **changes: str) -> str:
    asked = {
        "response_type": "token",
        "client_id": SANDBOX_CLIENT_ID,
        "redirect_uri": redirect_uri,
        "state": STATE,
        **changes,
    }
    return f"{base_url}{AUTHORIZE_PATH}?{urlencode(asked)}"


async def visit(url: str, visitor: Visitor | None = None) -> bool:
    return await asyncio.to_thread(visitor or Visitor(), url)


def handed_over(request: bytes) -> dict[str, str]:
    body = json.loads(request.partition(b"\r\n\r\n")[2])
    return dict(parse_qsl(body["fragment"], strict_parsing=True))


async def test_visitor_hands_over_what_a_browser_would(base_url: str) -> None:
    """It gets the client's page without the fragment, and posts the fragment to its path."""
    async with answering(PAGE, TAKEN) as (client, requests):
        url = authorization_url(base_url, f"{client}/callback?a=b", account="of the address")
        taken = await visit(url)

    got, posted = requests
    head, _, body = posted.partition(b"\r\n\r\n")
    assert taken
    assert got.startswith(b"GET /callback?a=b HTTP/1.1\r\n")
    assert head.startswith(b"POST /callback HTTP/1.1\r\n")
    assert f"\r\nHost: {client.removeprefix('http://')}\r\n".encode() in head
    assert f"\r\nOrigin: {client}".encode() in head
    assert b"\r\nContent-Type: application/json" in head
    assert json.loads(body).keys() == {"fragment", "query"}
    assert json.loads(body)["query"] == "a=b"
    assert handed_over(posted)["state"] == STATE


async def test_visitor_follows_a_redirect_to_the_login_page(base_url: str) -> None:
    async with answering(PAGE, TAKEN) as (client, _):
        url = authorization_url(base_url, f"{client}/callback")
        async with answering(moved(302, url)) as (start, _):
            assert await visit(start)


async def test_visitor_is_led_to_the_login_as_a_browser_is(base_url: str) -> None:
    """It opens the start address, keeps the cookie until the end, and can log in again."""
    flow, visitor = ImplicitFlow(f"{base_url}{AUTHORIZE_PATH}", SANDBOX_CLIENT_ID), Visitor()

    ended = Semaphore(0)

    def browse(url: str) -> bool:
        try:
            return visitor(url)
        finally:
            ended.release()

    tokens = [await login(flow, browser=browse, show=str) for _ in range(2)]
    for _ in tokens:  # a login may end before its browser has read the last reply
        await asyncio.to_thread(ended.acquire)

    assert len({token.value.get_secret_value() for token in tokens}) == 2


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"token": "hours"}, "token must be one of hour, minute, unstated, expired, revoked"),
        ({"decision": "refuse"}, "decision must be one of allow, deny"),
    ],
)
def test_a_visitor_that_cannot_log_in_is_refused(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Visitor(**wrong)


@pytest.mark.parametrize(
    ("visitor", "asked", "error"),
    [
        (Visitor(decision="deny"), {}, "access_denied"),
        # There is no login page: the visitor follows the redirect as a browser does.
        (Visitor(), {"response_type": "code"}, "unsupported_response_type"),
    ],
)
async def test_error_is_delivered_like_a_token(
    base_url: str, visitor: Visitor, asked: dict[str, str], error: str
) -> None:
    async with answering(PAGE, TAKEN) as (client, requests):
        taken = await visit(authorization_url(base_url, client, **asked), visitor)

    assert taken
    assert handed_over(requests[1])["error"] == error


@pytest.mark.parametrize(
    ("url", "visitor", "replies", "words"),
    [
        # The client refuses or fails.
        ("", Visitor(), [GONE], "the redirect URI was answered with status 410"),
        ("", Visitor(), [PAGE, GONE], "the posted response was answered with status 410"),
        ("", Visitor(), [b"no HTTP at all\r\n\r\n"], "BadStatusLine"),
        ("", Visitor(), [b""], "RemoteDisconnected"),
        # It sends its user on, so it has not taken the response.
        ("", Visitor(), [moved(302, "/done#x")], "the redirect URI was answered with status 302"),
        ("", Visitor(), [moved(302, "")], "the redirect URI was answered with status 302"),
        (
            "",
            Visitor(),
            [PAGE, moved(303, "/")],
            "the posted response was answered with status 303",
        ),
        # The sandbox shows an error page.
        ("", Visitor(account=" "), [], "the decision was answered with status 400"),
        ("http://evil", Visitor(), [], "the login page was answered with status 400"),
        # It is none.
        ("{client}/", Visitor(), [PAGE, PAGE], "the decision was answered with a page"),
        # The URL cannot be opened.
        ("https://127.0.0.1/authorize", Visitor(), [], "only http URLs are supported"),
        ("file:///etc/hostname", Visitor(), [], "only http URLs are supported"),
        ("http://[bad/authorize", Visitor(), [], "ValueError"),
        ("http://127.0.0.1:port/authorize", Visitor(), [], "InvalidURL"),
        ("http://127.0.0.1:1/a b", Visitor(), [], "InvalidURL"),
    ],
)
async def test_what_ends_a_visit_is_logged(
    base_url: str,
    caplog: pytest.LogCaptureFixture,
    url: str,
    visitor: Visitor,
    replies: list[bytes],
    words: str,
) -> None:
    """The visitor returns False, opens nothing more and logs the step."""
    async with answering(*replies) as (client, _):
        if not url or url == "http://evil":
            url = authorization_url(base_url, url or client)
        taken = await visit(url.replace("{client}", client), visitor)

    assert not taken
    assert caplog.messages == [f"the visitor gave up: {words}"]


async def test_visitor_has_a_time_out(caplog: pytest.LogCaptureFixture) -> None:
    async def be_silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_server(be_silent) as silent:
        assert not await visit(f"{silent}/authorize", Visitor(timeout=0.05))

    assert caplog.messages == ["the visitor gave up: TimeoutError"]


async def test_the_token_of_a_visit_is_valid_and_in_no_log(
    base_url: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """With every logger at DEBUG, it is neither logged nor printed, taken by the client or not."""
    caplog.set_level(logging.DEBUG)
    answers: list[dict[str, str]] = []
    for replies in ([PAGE, TAKEN], [PAGE, GONE]):
        async with answering(*replies) as (client, requests):
            await visit(authorization_url(base_url, client), Visitor(token="unstated"))
        assert requests[0].startswith(b"GET / HTTP/1.1\r\n")
        answers.append(handed_over(requests[1]))
    async with httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=60) as gateway:
        gateway.headers["Authorization"] = f"Bearer {answers[0]['access_token']}"
        called = await gateway.post("/kyc/1.0.0/webhook")

    assert called.status_code == 202
    written = caplog.text + "".join(capfd.readouterr())
    for answer in answers:
        assert "expires_in" not in answer
        assert answer["access_token"] not in written
