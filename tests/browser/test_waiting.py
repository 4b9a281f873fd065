"""A login that another tab finishes, that no tab finishes, or that is cancelled."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import BrowserContext, Page, Route

from gateway_sdk import LoginError, LoginTimeoutError
from gateway_sdk.auth import ImplicitFlow, _callback_server, _kept_ports, _loopback
from gateway_sdk.auth._loopback import close_all
from tests.browser.logins import (
    LOGGED_IN,
    NO_REPLY,
    UnderWay,
    Witness,
    decide,
    log_in,
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


@pytest.fixture
def first_tab_lingers(monkeypatch: pytest.MonkeyPatch) -> None:
    """End the first response's connection only after the second one's."""
    serve, served = _loopback.serve, asyncio.Event()
    answers = 0

    async def linger(
        reader: Any, writer: Any, to_head: Any, to_body: Any, replied: Callable[[], None]
    ) -> None:
        nonlocal answers
        posted = False

        def noted(request: Any) -> Any:
            nonlocal posted
            posted = True
            return to_body(request)

        await serve(reader, writer, to_head, noted, lambda: None)
        answers += posted
        if answers == 2:
            served.set()
        if posted:
            await served.wait()

    monkeypatch.setattr(_callback_server, "serve", linger)


async def test_the_second_of_two_tabs_is_refused(
    context: BrowserContext, sandbox_flow: ImplicitFlow, witness: Witness, first_tab_lingers: None
) -> None:
    """Two tabs finish the same login: one is logged in, the other one is told the reason."""
    async with under_way(sandbox_flow) as waiting:
        first, second = Held(await context.new_page()), Held(await context.new_page())
        await first.log_in(waiting)
        await second.log_in(waiting)

        first.let_go()
        await shows(first.page, LOGGED_IN)
        second.let_go()
        await shows(second.page, "This login has ended", "takes no response any more")
        await waiting.token

    assert [status for _, _, status in witness.requests] == [200, 200, 200, 409]


async def test_a_tab_that_is_too_late_is_refused(
    context: BrowserContext, page: Page, sandbox_flow: ImplicitFlow
) -> None:
    """A page that was loaded before the end of the login sees that the login is over."""
    async with under_way(sandbox_flow) as waiting:
        late = Held(await context.new_page())
        await late.log_in(waiting)
        await log_in(page, waiting)

    late.let_go()
    await shows(late.page, NO_REPLY, "If it still waits, try again.")
    assert late.page.url == waiting.redirect_uri


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
