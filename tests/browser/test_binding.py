"""Only the browser that opened a login's start address can finish the login."""

import pytest
from playwright.async_api import Browser, BrowserContext, Error, Page, Request, Route

from gateway_sdk.auth import ImplicitFlow
from gateway_sdk.errors import LoginError
from tests.browser.logins import (
    ANOTHER_BROWSER,
    LOGGED_IN,
    NO_REPLY,
    Witness,
    decide,
    log_in,
    shows,
    under_way,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    "host", [pytest.param("127.0.0.1", marks=pytest.mark.full), "[::1]", "localhost"]
)
async def test_the_cookie_is_sent_after_another_site(
    page: Page, foreign_flow: ImplicitFlow, host: str
) -> None:
    """An authorization server of another site redirects to the page, which has the cookie."""
    name = "127.0.0.1" if host == "localhost" else "localhost"
    elsewhere = ImplicitFlow(
        foreign_flow.authorization_url.replace("127.0.0.1", name), foreign_flow.client_id
    )
    async with under_way(elsewhere, redirect_uri=f"http://{host}:0/callback") as waiting:
        await log_in(page, waiting)


async def test_the_cookie_is_protected_and_deleted(
    context: BrowserContext, page: Page, sandbox_flow: ImplicitFlow
) -> None:
    """Scripts and other sites cannot read it, its name is unique, and it is deleted at the end."""
    async with under_way(sandbox_flow) as waiting:
        await waiting.open(page)
        (cookie,) = await context.cookies()
        async with under_way(sandbox_flow) as other:
            await page.goto(other.url)
            names = {cookie["name"] for cookie in await context.cookies()}
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        assert len(names) == 2

        await log_in(page, waiting)

    left = {kept["name"] for kept in await context.cookies()}
    assert left == names - {cookie["name"]}


async def test_back_and_reload_do_not_open_the_start_again(
    page: Page, sandbox_flow: ImplicitFlow, witness: Witness
) -> None:
    """They end at the authorization server: the start address led on and is not in the history."""
    async with under_way(sandbox_flow) as waiting:
        await waiting.open(page)
        await page.goto("about:blank")
        await page.go_back()
        await page.reload()
        await page.click("#allow")
        await shows(page, LOGGED_IN)

    assert witness.starts == [302]


@pytest.mark.parametrize("is_same", [True, False])
async def test_a_second_opening_ends_the_login(
    browser: Browser, page: Page, sandbox_flow: ImplicitFlow, witness: Witness, is_same: bool
) -> None:
    """It is not known which of the two is the user's, so both are refused, even with the cookie."""
    second = page.context if is_same else await browser.new_context()
    async with under_way(sandbox_flow) as waiting:
        await page.goto(waiting.url)
        thief = await second.new_page()
        await thief.goto(waiting.url)
        with pytest.raises(LoginError, match="was opened twice"):
            await waiting.token

    assert "opened twice" in await thief.inner_text("body")
    assert witness.starts == [302, 409]
    if not is_same:
        await second.close()


async def test_another_browser_cannot_finish_the_login(
    browser: Browser, context: BrowserContext, page: Page, foreign_flow: ImplicitFlow
) -> None:
    """A response from another browser is refused, even with the right state."""
    second = await browser.new_context()
    async with under_way(foreign_flow) as waiting:
        await waiting.open(page)
        thief = await second.new_page()
        await decide(thief, waiting)  # at the authorization URL with the state
        await shows(thief, ANOTHER_BROWSER, "Open the address that the program shows")
        assert not waiting.token.done()

        await log_in(await context.new_page(), waiting)
    await second.close()


async def test_an_image_and_a_prefetch_open_nothing(
    page: Page, browser: Browser, sandbox_flow: ImplicitFlow, witness: Witness
) -> None:
    """Requests that a browser makes without the user do not open the address."""
    second = await browser.new_context(extra_http_headers={"Sec-Purpose": "prefetch;prerender"})
    async with under_way(sandbox_flow) as waiting:
        early = await second.new_page()
        reply = await early.goto(waiting.url)
        assert reply is not None
        assert reply.status == 503
        await early.evaluate(
            """(url) => new Promise((done) => {
                const image = new Image();
                image.onerror = done;
                image.src = url;
            })""",
            waiting.url,
        )
        await log_in(page, waiting)
    await second.close()
    assert witness.starts == [503, 403, 302]


async def test_a_lost_post_can_be_repeated(page: Page, sandbox_flow: ImplicitFlow) -> None:
    """The page keeps the token until it has a reply, offers to try again, and forgets it then."""
    posts: list[str] = []

    async def lose_first(route: Route, request: Request) -> None:
        if request.method == "POST":
            posts.append(request.post_data or "")
            if len(posts) == 1:
                await route.abort()
                return
        await route.continue_()

    async with under_way(sandbox_flow) as waiting:
        await page.route(lambda url: url.startswith(waiting.redirect_uri), lose_first)
        await decide(page, waiting)
        await shows(page, NO_REPLY, "If it still waits, try again.")
        assert "#" not in page.url
        button = page.get_by_role("button", name="Try again")
        await button.click()
        await shows(page, LOGGED_IN)
        assert await button.is_hidden()
        token = (await waiting.token).value.get_secret_value()

    assert posts[0] == posts[1]
    assert token in posts[0]
    with pytest.raises(Error, match="ERR_CONNECTION_REFUSED"):
        await page.reload()
