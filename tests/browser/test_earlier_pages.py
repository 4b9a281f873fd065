"""A page that an earlier server at the port has left in the browser's cache, and other ports."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
from playwright.async_api import Page
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send

from gateway_sdk import LoginError
from gateway_sdk.auth import ImplicitFlow, _loopback, _receiver as receiver
from gateway_sdk.sandbox._server import serve
from tests.browser.logins import Witness, log_in, under_way

pytestmark = pytest.mark.asyncio(loop_scope="session")

_THIEF = """<!doctype html><link rel="icon" href="data:,">
<script>document.title = `stolen ${location.hash}`</script>"""


class Earlier:
    """Answers every path with a page that takes the fragment and may be cached for a year.

    Attributes:
        cookies: The cookies of each request.
    """

    def __init__(self) -> None:
        self.cookies: list[str] = []

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[str]:
        """Serve at a free port in the running loop; yield the URL."""
        async with serve(self, "127.0.0.1", 0) as url:
            yield url

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.cookies.append(Request(scope).headers.get("cookie", ""))
        reply = HTMLResponse(_THIEF, headers={"Cache-Control": "max-age=31536000"})
        await reply(scope, receive, send)


async def leave_page(page: Page) -> str:
    """Let the browser cache the page at the path of the answer; return the redirect URI."""
    async with Earlier().serve() as url:
        await page.goto(f"{url}/callback")
    return f"{url}/callback"


async def test_a_cached_page_would_get_the_token(page: Page) -> None:
    """The browser runs it without asking the port, where nothing listens: the danger is real."""
    redirect_uri = await leave_page(page)
    async with Earlier().serve() as url:  # a page of the same site, as a login's often is
        await page.goto(url)
        target = f"{redirect_uri}#access_token=CANARY"
        await page.evaluate("(target) => { location = target; }", target)
        await page.wait_for_url(target)

    assert await page.title() == "stolen #access_token=CANARY"


@pytest.mark.parametrize("is_fixed", [True, False])
async def test_a_cached_page_gets_no_token(
    page: Page,
    sandbox_flow: ImplicitFlow,
    witness: Witness,
    monkeypatch: pytest.MonkeyPatch,
    is_fixed: bool,
) -> None:
    """The start address deletes it, and the program gets the response, at any kind of port."""
    redirect_uri, listen = await leave_page(page), _loopback.listen
    if not is_fixed:
        left, redirect_uri = httpx.URL(redirect_uri), receiver.DEFAULT_REDIRECT_URI
        # The free port that the system chooses is the one at which the page was left.
        monkeypatch.setattr(receiver, "listen", lambda _, bind: listen(left, bind))
    async with under_way(sandbox_flow, redirect_uri=redirect_uri) as waiting:
        await log_in(page, waiting)

    assert [method for method, _ in witness.at("/callback")] == ["GET", "POST"]


async def test_a_server_at_another_port_cannot_use_the_login(
    page: Page, sandbox_flow: ImplicitFlow, witness: Witness
) -> None:
    """Its pages get no cookie, except at the answer's path; with that one it gets no state."""
    other = Earlier()
    async with other.serve() as url, under_way(sandbox_flow) as waiting:
        await page.goto(waiting.url)
        await page.goto(url)
        await page.goto(f"{url}/callback")
        assert other.cookies[0] == ""
        cookie = other.cookies[1]
        assert cookie.startswith("login-")
        async with httpx.AsyncClient() as thief:
            reply = await thief.get(waiting.url, headers={"Cookie": cookie})
        with pytest.raises(LoginError, match="opened twice"):
            await waiting.token

    assert (reply.status_code, "location" in reply.headers) == (409, False)
    assert witness.starts == [302, 409]
