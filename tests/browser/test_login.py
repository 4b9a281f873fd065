"""A user logs in with a real browser, or refuses, at this machine's names and networks."""

import asyncio
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from playwright.async_api import Browser, BrowserContext, Page, Response, expect

from gateway_sdk import AuthorizationDeniedError
from gateway_sdk.auth import ImplicitFlow
from tests.browser.chromium import Launch
from tests.browser.logins import (
    LOGGED_IN,
    NOT_LOGGED_IN,
    Witness,
    decide,
    log_in,
    shows,
    under_way,
)
from tests.browser.sites import Site, authorization_server

pytestmark = pytest.mark.asyncio(loop_scope="session")
DELIVERED = [("GET", "/callback", 200), ("POST", "/callback", 200)]


async def test_a_login_returns_the_issued_token(
    context: BrowserContext, page: Page, flow: ImplicitFlow, witness: Witness
) -> None:
    """It takes the start, the page and its POST, once each; no icon, script or image."""
    answers, asked = list[str](), list[str]()

    def note(response: Response) -> None:
        answers.append(response.headers.get("location", ""))

    context.on("response", note)
    context.on("request", lambda request: asked.append(request.url))
    async with under_way(flow, clock=lambda: 1000.0) as waiting:
        await decide(page, waiting)
        await shows(page, LOGGED_IN, "You can close this tab and return to the program.")
        token = await waiting.token
    (location,) = (location for location in answers if "access_token" in location)
    handed_out = parse_qs(urlsplit(location).fragment)
    assert [token.value.get_secret_value()] == handed_out["access_token"]
    assert (token.obtained_at, token.expires_at) == (1000.0, 4600.0)
    assert await page.title() == LOGGED_IN
    assert (witness.starts, witness.requests) == ([302], DELIVERED)
    places = {url.partition("?")[0].partition("#")[0] for url in asked}
    assert places == {waiting.url, flow.authorization_url, waiting.redirect_uri}


TOKEN = "-._~+/with+all/that+a+token/may+hold=="
GRANT = "&token_type=Bearer&expires_in=3600"
full = pytest.mark.full


@pytest.mark.parametrize(
    ("response", "token"),
    [
        (f"#access_token={quote(TOKEN, safe='')}{GRANT}&state=STATE", TOKEN),
        (f"#access_token={TOKEN}{GRANT}&state=STATE", TOKEN),
        (f"?state=STATE#access_token={TOKEN}{GRANT}", TOKEN),
        (f"#access_token={'long' * 10_000}{GRANT}&state=STATE", "long" * 10_000),
        ("?error=access_denied&state=STATE", None),
    ],
    ids=["encoded", "raw", "state in the query", "long", "error in the query"],
)
async def test_a_response_arrives_unchanged(page: Page, response: str, token: str | None) -> None:
    """Encoded or not, wherever its parts are; the address bar is cleared of the query, too."""
    async with (
        Site(authorization_server(response)).serve() as server,
        under_way(ImplicitFlow(server.url, "client")) as waiting,
    ):
        if token is not None:
            assert await log_in(page, waiting) == token
        else:
            await decide(page, waiting)
            await shows(page, NOT_LOGGED_IN, "The login was refused (access_denied).")
            with pytest.raises(AuthorizationDeniedError, match="access_denied"):
                await waiting.token
    assert unquote(page.url).partition("?state=")[0] == waiting.redirect_uri


@pytest.mark.parametrize("host", [pytest.param("127.0.0.1", marks=full), "[::1]", "localhost"])
async def test_every_name_of_this_machine_is_accepted(
    page: Page, flow: ImplicitFlow, witness: Witness, host: str
) -> None:
    """The response may go to either loopback address, or to localhost, from another site, too."""
    name = "127.0.0.1" if host == "localhost" else "localhost"
    elsewhere = ImplicitFlow(flow.authorization_url.replace("127.0.0.1", name), flow.client_id)
    async with under_way(elsewhere, redirect_uri=f"http://{host}:0/a/path?kept=1") as waiting:
        await log_in(page, waiting)
    assert waiting.redirect_uri.startswith(f"http://{host}:")
    assert page.url == waiting.redirect_uri.partition("?")[0]
    assert witness.requests == [("GET", "/a/path?kept=1", 200), ("POST", "/a/path", 200)]


async def test_an_authorization_server_on_the_internet_reaches_this_machine(
    launch: Launch, flow: ImplicitFlow, witness: Witness, hostile: Site
) -> None:
    """Local Network Access keeps what public pages load off this machine, not whom they send.

    Should browsers begin to ask before they follow such a redirect too, this is where it shows.
    """
    server = urlsplit(flow.authorization_url).netloc
    browser = await launch(f"--ip-address-space-overrides={server}=public")
    async with under_way(flow) as waiting:
        page = await browser.new_page()
        await waiting.open(page)
        fetched = "(url) => fetch(url, {mode: 'no-cors'}).then(() => 'sent', () => 'refused')"
        # The browser does treat the server as a public one.
        assert await page.evaluate(fetched, hostile.url) == "refused"
        assert hostile.requests == []
        await log_in(page, waiting)
    assert witness.requests == DELIVERED


async def test_without_scripts_the_address_can_be_pasted(
    browser: Browser, flow: ImplicitFlow, witness: Witness
) -> None:
    """A page that cannot deliver the response explains what to do, and that works."""
    pasted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    page = await browser.new_page(java_script_enabled=False)
    async with under_way(flow, paste=lambda: pasted) as waiting:
        await decide(page, waiting)
        await shows(page, "One step is left")
        explanation = page.locator("noscript p").first
        await expect(explanation).to_contain_text("Copy the whole address of this page")
        await expect(explanation).to_be_visible()
        assert witness.requests == DELIVERED[:1]
        pasted.set_result(page.url)
        assert (await waiting.token).value.get_secret_value()
    await page.close()
