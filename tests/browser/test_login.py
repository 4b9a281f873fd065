"""A user logs in with a real browser, or refuses."""

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.async_api import BrowserContext, Page, Response

from gateway_sdk import AuthorizationDeniedError
from gateway_sdk.auth import ImplicitFlow
from tests.browser.logins import (
    LOGGED_IN,
    NOT_LOGGED_IN,
    Witness,
    decide,
    log_in,
    shows,
    under_way,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_login_returns_the_issued_token(
    context: BrowserContext, page: Page, flow: ImplicitFlow
) -> None:
    """A user who allows it sees that the login succeeded, and the program has the token."""
    answers: list[str] = []

    def note(response: Response) -> None:
        answers.append(response.headers.get("location", ""))

    context.on("response", note)
    async with under_way(flow, clock=lambda: 1000.0) as waiting:
        await decide(page, waiting)
        await shows(page, LOGGED_IN, "You can close this tab and return to the program.")
        token = await waiting.token

    (location,) = (location for location in answers if "access_token" in location)
    handed_out = parse_qs(urlsplit(location).fragment)
    assert [token.value.get_secret_value()] == handed_out["access_token"]
    assert (token.obtained_at, token.expires_at) == (1000.0, 4600.0)
    assert await page.title() == LOGGED_IN


async def test_a_user_who_refuses_is_not_logged_in(page: Page, flow: ImplicitFlow) -> None:
    """A denial ends the login with its reason, in the program and on the page."""
    async with under_way(flow) as waiting:
        await decide(page, waiting, "deny")
        await shows(page, NOT_LOGGED_IN, "The login was refused (access_denied).")
        with pytest.raises(AuthorizationDeniedError) as caught:
            await waiting.token

    assert caught.value.code == "access_denied"
    assert page.url == waiting.redirect_uri


async def test_a_login_takes_three_requests_and_nothing_of_other_sites(
    context: BrowserContext, page: Page, flow: ImplicitFlow, witness: Witness
) -> None:
    """The start, the page and its POST, once each; no icon, script or image."""
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    async with under_way(flow) as waiting:
        await log_in(page, waiting)

    assert witness.requests == [("GET", "/callback", 200), ("POST", "/callback", 200)]
    assert witness.starts == [302]
    places = {url.partition("?")[0].partition("#")[0] for url in asked}
    assert places == {waiting.url, flow.authorization_url, waiting.redirect_uri}


@pytest.mark.parametrize(
    "host", [pytest.param("127.0.0.1", marks=pytest.mark.full), "[::1]", "localhost"]
)
async def test_every_name_of_this_machine_is_accepted(
    page: Page, sandbox_flow: ImplicitFlow, witness: Witness, host: str
) -> None:
    """The response may go to either loopback address, or to localhost."""
    async with under_way(sandbox_flow, redirect_uri=f"http://{host}:0/a/path?kept=1") as waiting:
        await log_in(page, waiting)

    assert waiting.redirect_uri.startswith(f"http://{host}:")
    assert page.url == waiting.redirect_uri.partition("?")[0]
    assert witness.requests == [("GET", "/a/path?kept=1", 200), ("POST", "/a/path", 200)]
