"""A login whose browser is the test's, the person before it, and the one who watches."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import Page, expect

from gateway_sdk import Token
from gateway_sdk.auth import ImplicitFlow, LoopbackReceiver, login
from gateway_sdk.auth._callback_handler import CallbackHandler, CallbackReply, CallbackRequest

LOGGED_IN = "You are logged in"
NOT_LOGGED_IN = "You are not logged in"
NOBODY_WAITS = "This login has ended"
NOT_OURS = "This response belongs to another login"


class UnderWay(NamedTuple):
    """A login that waits: where the browser should go, where the answer comes, what it brings."""

    url: str
    redirect_uri: str
    token: asyncio.Task[Token]


@asynccontextmanager
async def under_way(flow: ImplicitFlow, **options: Any) -> AsyncGenerator[UnderWay]:
    """Begin a login that takes the test for its browser; it does not outlive the test."""
    loop, opened = asyncio.get_running_loop(), asyncio.Queue[str]()

    def browser(url: str) -> bool:
        loop.call_soon_threadsafe(opened.put_nowait, url)
        return True

    options = {"browser": browser, "show": lambda _: None, "timeout": 50, **options}
    task = asyncio.create_task(login(flow, **options))
    try:
        url = await opened.get()
        yield UnderWay(url, parse_qs(urlsplit(url).query)["redirect_uri"][0], task)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def decide(page: Page, url: str, decision: str = "allow") -> None:
    """Go to the authorization server, and press the button that is meant."""
    await page.goto(url)
    await page.click(f"#{decision}")


async def shows(page: Page, heading: str, text: str = "") -> None:
    """Wait until the page says this, and maybe that below it."""
    await expect(page.locator("h1")).to_have_text(heading)
    await expect(page.locator("#text")).to_contain_text(text)


async def log_in(page: Page, waiting: UnderWay) -> str:
    """Log in as one should, see that the page says so, and return the token."""
    await decide(page, waiting.url)
    await shows(page, LOGGED_IN)
    return (await waiting.token).value.get_secret_value()


class Witness:
    """Sees what reaches the receivers of a test, on their side of the wire.

    Attributes:
        requests: Method, target and status of each.
        refused: Answers that were turned away, by the login of the last request.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.requests: list[tuple[str, str, int]] = []
        self.refused = 0
        self._connections = 0
        self._connected = asyncio.Event()
        self._watch_requests(monkeypatch)
        self._watch_connections(monkeypatch)

    def at(self, path: str) -> list[tuple[str, int]]:
        """Return method and status of those to a path; Chromium may ask for an icon besides."""
        return [
            (method, status)
            for method, target, status in self.requests
            if target.partition("?")[0] == path
        ]

    async def connections(self, number: int) -> None:
        """Wait until there have been so many connections."""
        while self._connections < number:
            self._connected.clear()
            await self._connected.wait()

    def _watch_requests(self, monkeypatch: pytest.MonkeyPatch) -> None:
        handle = CallbackHandler.handle

        def reply(handler: CallbackHandler[Any], request: CallbackRequest) -> CallbackReply:
            reply = handle(handler, request)
            self.requests.append((request.method, request.target, reply.status))
            self.refused = handler.refused
            return reply

        monkeypatch.setattr(CallbackHandler, "handle", reply)

    def _watch_connections(self, monkeypatch: pytest.MonkeyPatch) -> None:
        connected = LoopbackReceiver._connected

        def count(*arguments: Any) -> None:
            self._connections += 1
            self._connected.set()
            connected(*arguments)

        monkeypatch.setattr(LoopbackReceiver, "_connected", count)
