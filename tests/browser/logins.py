"""A login whose browser and user are the test's, a record of its requests, and other web sites."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Page, expect
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from gateway_sdk import Token
from gateway_sdk.auth import ImplicitFlow, login
from gateway_sdk.auth._login.handler import CallbackHandler, CallbackRequest
from gateway_sdk.auth._login.login import DEFAULT_REDIRECT_URI
from gateway_sdk.sandbox._server import serve

LOGGED_IN = "You are logged in"
NOT_LOGGED_IN = "You are not logged in"
NOT_OURS = "This response belongs to another login"


@dataclass
class UnderWay:
    """A login that waits: the URL that the browser opens, the redirect URI, the result."""

    url: str
    redirect_uri: str
    token: asyncio.Task[Token]
    leads_to: str = ""  # where the start address led: it can be opened once, and this more often

    async def open(self, page: Page) -> None:
        """Go to the authorization server: the first time from the start address."""
        await page.goto(self.leads_to or self.url)
        await page.wait_for_url(lambda url: url != self.url)
        self.leads_to = self.leads_to or page.url


@asynccontextmanager
async def under_way(flow: ImplicitFlow, **options: Any) -> AsyncGenerator[UnderWay]:
    """Begin a login that uses the test as its browser; it ends with the test."""
    loop, opened = asyncio.get_running_loop(), asyncio.Queue[str]()

    def browser(url: str) -> bool:
        loop.call_soon_threadsafe(opened.put_nowait, url)
        return True

    options = {"browser": browser, "show": lambda _: None, "timeout": 50, **options}
    task = asyncio.create_task(login(flow, **options))
    try:
        url = await opened.get()
        redirect_uri: str = options.get("redirect_uri", DEFAULT_REDIRECT_URI)
        yield UnderWay(url, redirect_uri.replace(":0/", f":{urlsplit(url).port}/"), task)
    finally:
        task.cancel()
        await asyncio.wait([task])


async def decide(page: Page, waiting: UnderWay, decision: str = "allow") -> None:
    await waiting.open(page)
    await page.click(f"#{decision}")


async def shows(page: Page, heading: str, text: str = "") -> None:
    await expect(page.locator("h1")).to_have_text(heading)
    await expect(page.locator("#text")).to_contain_text(text)


async def log_in(page: Page, waiting: UnderWay) -> str:
    await decide(page, waiting)
    await shows(page, LOGGED_IN)
    return (await waiting.token).value.get_secret_value()


class Witness:
    """Sees what reaches the receivers of a test, on their side of the wire."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.starts: list[int] = []  # the status of each request to a start address
        self.requests: list[tuple[str, str, int]] = []  # method, target and status of the others
        self.refused = 0  # answers that were turned away, by the login of the last request
        reply_to = CallbackHandler.reply

        def reply(
            handler: CallbackHandler, request: CallbackRequest, **given: bool
        ) -> httpx.Response:
            reply = reply_to(handler, request, **given)
            self.refused = handler.refused
            if request.target in handler.starts:
                self.starts.append(reply.status_code)
            elif reply.status_code != httpx.codes.NO_CONTENT:  # the start's page empties the cache
                self.requests.append((request.method, request.target, reply.status_code))
            return reply

        monkeypatch.setattr(CallbackHandler, "reply", reply)

    def at(self, path: str) -> list[tuple[str, int]]:
        """Return method and status of the requests to a path; Chromium may also ask for an icon."""
        return [
            (method, status)
            for method, target, status in self.requests
            if target.partition("?")[0] == path
        ]


ICON = '<!doctype html><link rel="icon" href="data:,">'
"""The beginning of a page for which no icon is asked."""


class Site:
    """Serves at a free port of this machine."""

    url: str

    def __init__(self, reply: Callable[[Request], Response]) -> None:
        self.requests: list[Request] = []
        self.posted: asyncio.Queue[str] = asyncio.Queue()  # the bodies that were sent to it
        self._reply = reply

    @asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncGenerator[Self]:
        async with serve(self, "127.0.0.1", port) as self.url:
            yield self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.requests.append(request)
        if body := await request.body():
            self.posted.put_nowait(body.decode())
        await self._reply(request)(scope, receive, send)


def blank(_: Request) -> Response:
    return HTMLResponse(f"{ICON}<title>Win a prize</title>")


def authorization_server(response: str) -> Callable[[Request], Response]:
    """Ask with a button, then redirect with a response in which STATE is replaced."""

    def reply(request: Request) -> Response:
        if request.method == "GET":
            return HTMLResponse(f'{ICON}<form method="post"><input name="x"><button id="allow">')
        asked = request.query_params
        location = asked["redirect_uri"] + response.replace("STATE", asked["state"])
        return Response(status_code=302, headers={"Location": location})

    return reply
