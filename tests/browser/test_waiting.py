"""A login that another tab finishes, that no tab finishes, or that is cancelled."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from playwright.async_api import BrowserContext, Error, Page, Route

from gateway_sdk import LoginTimeoutError
from gateway_sdk.auth import ImplicitFlow, _loopback, _receiver
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

    monkeypatch.setattr(_receiver, "serve", linger)


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
        await shows(second.page, "Another response was received first", "has received its response")
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


async def test_a_closed_tab_lets_the_login_time_out(page: Page, sandbox_flow: ImplicitFlow) -> None:
    """If the user closes the tab, the login ends with its time-out."""
    async with under_way(sandbox_flow, timeout=1) as waiting:
        await page.goto(waiting.url)
        await page.close()
        with pytest.raises(LoginTimeoutError, match="was not finished within 1 s") as late:
            await waiting.token

    assert late.value.refused == 0


async def test_a_cancelled_login_cannot_be_finished(
    context: BrowserContext, page: Page, sandbox_flow: ImplicitFlow
) -> None:
    """An open page sees that the login is over; a later one finds the port closed."""
    async with under_way(sandbox_flow) as waiting:
        held = Held(page)
        await held.log_in(waiting)
        waiting.token.cancel()
        await asyncio.wait([waiting.token])

    held.let_go()
    await shows(page, NO_REPLY)
    later = await context.new_page()
    with pytest.raises(Error, match="ERR_CONNECTION_REFUSED"):
        await later.goto(waiting.redirect_uri)
