"""A service worker that an earlier page has left at a fixed port, before a login uses the port."""

import pytest
from playwright.async_api import Page
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Receive, Scope, Send

from gateway_sdk.auth import ImplicitFlow
from gateway_sdk.sandbox._server import serve
from tests.browser.logins import Witness, log_in, under_way

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Handles the requests of TAKES, and shows its own page; the fragment is its title.
_WORKER = """
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(clients.claim()));
self.addEventListener("fetch", (event) => {
  if (event.request.mode !== "navigate") return;
  const isAnswer = new URL(event.request.url).pathname === "/callback";
  const robbed = () => new Response("<script>document.title = location.hash</script>",
    {headers: {"Content-Type": "text/html"}});
  TAKES
});
"""
TAKES = {
    "the response": "if (isAnswer) event.respondWith(robbed());",
    "everything": "event.respondWith(robbed());",
    "everything, and passes on": ("event.respondWith(isAnswer ? robbed() : fetch(event.request));"),
}


class Planter:
    """A site that leaves a service worker which handles these requests."""

    def __init__(self, takes: str) -> None:
        self._worker = _WORKER.replace("TAKES", TAKES[takes])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if Request(scope).url.path == "/deep/worker.js":
            headers = {"Service-Worker-Allowed": "/"}  # so the path of the script does not matter
            reply = Response(self._worker, media_type="text/javascript", headers=headers)
        else:
            reply = HTMLResponse('<link rel="icon" href="data:,">')
        await reply(scope, receive, send)

    async def plant(self, page: Page) -> str:
        """Leave the service worker in a browser; return the redirect URI at its port."""
        async with serve(self, "127.0.0.1", 0) as url:
            await page.goto(url)
            await page.evaluate(
                """async () => {
                    await navigator.serviceWorker.register("/deep/worker.js", {scope: "/"});
                    await navigator.serviceWorker.ready;
                }"""
            )
        return f"{url}/callback"


async def test_an_old_service_worker_would_get_the_token(page: Page) -> None:
    """It gets the fragment of the URL, which would hold a token: the danger is real."""
    for takes in TAKES:
        redirect_uri = await Planter(takes).plant(page)
        await page.goto(f"{redirect_uri}#access_token=CANARY")
        assert await page.title() == "#access_token=CANARY"


async def test_a_worker_that_lets_the_start_through_is_removed(
    page: Page, sandbox_flow: ImplicitFlow, witness: Witness
) -> None:
    """The start address removes it, and the program gets the response."""
    redirect_uri = await Planter("the response").plant(page)
    async with under_way(sandbox_flow, redirect_uri=redirect_uri) as waiting:
        await log_in(page, waiting)

    assert [method for method, _ in witness.at("/callback")] == ["GET", "POST"]


@pytest.mark.parametrize("takes", ["everything", "everything, and passes on"])
async def test_a_worker_that_handles_the_start_gets_no_token(
    page: Page, sandbox_flow: ImplicitFlow, witness: Witness, takes: str
) -> None:
    """It is not redirected to the authorization server, so it gets neither state nor token."""
    redirect_uri = await Planter(takes).plant(page)
    async with under_way(sandbox_flow, redirect_uri=redirect_uri) as waiting:
        await page.goto(waiting.url)
        assert page.url == waiting.url
        assert 302 not in witness.starts
        assert not waiting.token.done()
