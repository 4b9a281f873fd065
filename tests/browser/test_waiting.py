"""A login that another tab finishes, that no tab finishes, or that is cancelled."""

import asyncio
import sys
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Page, Route

from gateway_sdk import LoginError, LoginTimeoutError
from gateway_sdk.auth import ImplicitFlow, _kept_ports
from gateway_sdk.auth._loopback import close_all
from tests.browser.logins import (
    UnderWay,
    decide,
    shows,
    under_way,
)
from tests.support.ports import free_port

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Held:
    """A tab whose response does not arrive at the program before the test allows it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._holding = asyncio.Event()
        self._may_go = asyncio.Event()

    async def log_in(self, waiting: UnderWay) -> None:
        """Log in until the page is loaded and wants to post."""
        await self.page.route(lambda url: url.startswith(waiting.redirect_uri), self._hold)
        await decide(self.page, waiting)
        await self._holding.wait()

    def let_go(self) -> None:
        self._may_go.set()

    async def _hold(self, route: Route) -> None:
        if route.request.method == "POST":
            self._holding.set()
            await self._may_go.wait()
        await route.continue_()


# Another user tries to bind the port in every way, as soon as it may be free.
THIEF = """
import os, socket, sys
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for option in (None, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
    with socket.socket() as thief:
        if option:
            thief.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            thief.bind(("127.0.0.1", int(sys.argv[1])))
            thief.listen()
        except OSError:
            continue
        sys.exit("it has the port")
"""


@pytest.mark.parametrize("is_fixed", [True, False])
@pytest.mark.parametrize("how", ["a time-out", "a cancellation", "a second opening"])
async def test_nobody_gets_the_port_while_the_tab_is_open(
    page: Page, sandbox_flow: ImplicitFlow, how: str, is_fixed: bool
) -> None:
    """A tab that goes on after the end of the login hands its token to nobody, and is told so."""
    more: dict[str, Any] = {"timeout": 2} if how == "a time-out" else {}
    if is_fixed:
        more["redirect_uri"] = f"http://127.0.0.1:{free_port()}/callback"
    async with under_way(sandbox_flow, **more) as waiting:
        await waiting.open(page)
        if how == "a cancellation":
            waiting.token.cancel()
        elif how == "a second opening":
            async with httpx.AsyncClient() as thief:
                await thief.get(waiting.url)
        await asyncio.wait([waiting.token])
        ended = waiting.token.cancelled() or type(waiting.token.exception())

    assert ended is {"a time-out": LoginTimeoutError, "a second opening": LoginError}.get(how, True)
    port = str(urlsplit(waiting.redirect_uri).port)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", THIEF, port)
    assert await process.wait() == 0
    await page.click("#allow")
    await shows(page, "This login has ended", "Close this tab")
    assert page.url == waiting.redirect_uri
    for place in list(_kept_ports._kept):
        close_all(_kept_ports.take(place))
