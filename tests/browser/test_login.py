"""A user logs in with a real browser, or refuses: the page, and what is left in the browser."""

import asyncio
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    BrowserType,
    ConsoleMessage,
    Error,
    Page,
    Request,
    Response,
    Route,
    expect,
)
from starlette.responses import HTMLResponse

from gateway_sdk import AuthorizationDeniedError
from gateway_sdk.auth import ImplicitFlow
from tests.browser.chromium import ARGUMENTS
from tests.browser.logins import (
    LOGGED_IN,
    NOT_LOGGED_IN,
    NOT_OURS,
    Site,
    Witness,
    authorization_server,
    decide,
    log_in,
    shows,
    under_way,
)

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
    async with under_way(flow) as waiting:
        await decide(page, waiting)
        await shows(page, LOGGED_IN, "You can close this tab and return to the program.")
        token = await waiting.token
    (location,) = (location for location in answers if "access_token" in location)
    handed_out = parse_qs(urlsplit(location).fragment)
    assert [token.value.get_secret_value()] == handed_out["access_token"]
    assert token.expires_at == token.obtained_at + 3600
    assert await page.title() == LOGGED_IN
    assert (witness.starts, witness.requests) == ([200], DELIVERED)
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
            await shows(page, NOT_LOGGED_IN, "The reason: the login was refused (access_denied).")
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
    page: Page, flow: ImplicitFlow, witness: Witness, hostile: Site
) -> None:
    """Local Network Access keeps what public pages load off this machine, not whom they send.

    Should browsers begin to ask before they follow such a redirect too, this is where it shows.
    """
    async with under_way(flow) as waiting:
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


async def entries(page: Page, *, refused: bool = False) -> list[str]:
    if refused:
        await page.wait_for_url("chrome-error:**")
    devtools = await page.context.new_cdp_session(page)
    history = await devtools.send("Page.getNavigationHistory")
    return [entry[name] for entry in history["entries"] for name in ("url", "userTypedURL")]


async def test_the_tab_does_not_keep_the_token(page: Page, flow: ImplicitFlow) -> None:
    """The address bar, Back and Forward do not show the token or the state again."""
    async with under_way(flow) as waiting:
        token = await log_in(page, waiting)
    assert page.url == waiting.redirect_uri
    assert not any("#" in address or token in address for address in await entries(page))
    await page.go_back()
    assert page.url.startswith(flow.authorization_url)
    with pytest.raises(Error, match="ERR_CONNECTION_REFUSED"):
        await page.go_forward()
    assert not any("#" in address for address in await entries(page, refused=True))


async def test_a_page_without_a_response_says_so(
    page: Page, flow: ImplicitFlow, witness: Witness
) -> None:
    """Opening it without a response, or reloading it after a refusal, changes nothing."""
    async with under_way(flow) as waiting:
        await waiting.open(page)
        await page.goto(f"{waiting.redirect_uri}#state=wrong")
        await shows(page, NOT_OURS)
        await page.reload()
        await shows(page, "No response", "Start the login again.")
        assert [method for method, _, _ in witness.requests] == ["GET", "POST", "GET"]
        await log_in(page, waiting)


async def test_back_and_reload_do_not_open_the_start_again(
    page: Page, flow: ImplicitFlow, witness: Witness
) -> None:
    """They end at the authorization server: the start address led on and is not in the history."""
    async with under_way(flow) as waiting:
        await waiting.open(page)
        await page.goto("about:blank")
        await page.go_back()
        await page.reload()
        await page.click("#allow")
        await shows(page, LOGGED_IN)
    assert witness.starts == [200]


async def test_a_lost_post_can_be_repeated(page: Page, flow: ImplicitFlow) -> None:
    """The page keeps the token until it has a reply, offers to try again, and forgets it then."""
    posts: list[str] = []

    async def lose_first(route: Route, request: Request) -> None:
        if request.method == "POST":
            posts.append(request.post_data or "")
            if len(posts) == 1:
                await route.abort()
                return
        await route.continue_()

    async with under_way(flow) as waiting:
        await page.route(lambda url: url.startswith(waiting.redirect_uri), lose_first)
        await decide(page, waiting)
        await shows(page, "The program did not reply", "If it still waits, try again.")
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


# Each is blocked by the directive of its name, as others of the header would be.
_INJECTIONS = {
    "script-src-elem": """
        const script = document.createElement("script");
        script.textContent = "window.injected = true";
        document.body.append(script);""",
    "img-src": """new Image().src = elsewhere;""",
    "connect-src": """fetch(elsewhere, {mode: "no-cors"}).catch(() => {});""",
}


async def test_the_policy_blocks_injections_and_nothing_of_the_page(
    context: BrowserContext, page: Page, flow: ImplicitFlow, hostile: Site
) -> None:
    """A login logs nothing; scripts, images and requests to other places are blocked."""
    said: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if not message.text.startswith("Clear-Site-Data header on "):  # that it was obeyed
            said.append(message.text)

    context.on("console", note)
    context.on("weberror", lambda error: said.append(str(error.error)))
    async with under_way(flow) as waiting:
        await log_in(page, waiting)
    # Console messages come in order: when this one has arrived, there was none before it.
    async with context.expect_console_message():
        await page.evaluate("console.log('the end')")
    assert said == ["the end"]
    for directive, injection in _INJECTIONS.items():
        # Blocked by the policy: any other failure would come without this event.
        blocked = await page.evaluate(
            f"""(elsewhere) => new Promise((blocked) => {{
                document.addEventListener("securitypolicyviolation",
                    (event) => blocked(event.effectiveDirective), {{once: true}});
                {injection}
            }})""",
            f"{hostile.url}/secret",
        )
        assert blocked == directive
        assert await page.evaluate("window.injected") is None
        assert hostile.requests == []
        assert page.url == waiting.redirect_uri


def holders(profile: Path, token: str) -> set[str]:
    """Return the files of a profile that contain a token, in one of the ways texts are stored."""
    texts = (token, quote(token, safe=""))
    spellings = [text.encode(encoding) for text in texts for encoding in ("ascii", "utf-16-le")]
    files = [file.relative_to(profile) for file in profile.rglob("*") if file.is_file()]
    assert Path("Default/Preferences") in files
    return {
        next(part for part in file.parts if part != "Default")
        for file in files
        if any(spelling in (profile / file).read_bytes() for spelling in spellings)
    }


@full
async def test_what_a_browser_stores_of_a_login(
    profile: BrowserContext,
    chromium: BrowserType,
    executable: str,
    flow: ImplicitFlow,
    tmp_path: Path,
) -> None:
    """Of a private window nothing; else the URL stays where no page can reach, and only there.

    Chromium 150 keeps it in the list of what was visited (Default/History), in the journal of tabs
    (Default/Sessions, as an entry that a clean one follows) and at times in its usage statistics.
    A browser that restores its tabs opens the clean URL, whichever server is there now.
    """
    assert profile.browser is not None
    private = await profile.browser.new_context()
    async with under_way(flow) as waiting:
        hidden = await log_in(await private.new_page(), waiting)
    async with under_way(flow) as waiting:
        token = await log_in(await profile.new_page(), waiting)
    await profile.close()
    assert holders(tmp_path, hidden) == set()
    assert "History" in holders(tmp_path, token)
    assert holders(tmp_path, token) <= {"History", "Sessions", "segmentation_platform"}

    page = HTMLResponse("<script>fetch('', {method: 'POST', body: location.href})</script>")
    port = urlsplit(waiting.redirect_uri).port
    async with Site(lambda _: page).serve(port or 0) as mirror:
        restored = await chromium.launch_persistent_context(
            tmp_path, executable_path=executable, args=[*ARGUMENTS, "--restore-last-session"]
        )
        assert await mirror.posted.get() == waiting.redirect_uri
        await restored.close()
