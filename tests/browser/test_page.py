"""The page that the response arrives at: what it allows, and what a login leaves in the browser."""

from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from playwright.async_api import (
    BrowserContext,
    BrowserType,
    ConsoleMessage,
    Error,
    Page,
    Request,
    Route,
)
from starlette.responses import HTMLResponse

from gateway_sdk.auth import ImplicitFlow
from tests.browser.chromium import ARGUMENTS
from tests.browser.logins import LOGGED_IN, NOT_OURS, Witness, decide, log_in, shows, under_way
from tests.browser.sites import Site

pytestmark = pytest.mark.asyncio(loop_scope="session")


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
    assert witness.starts == [302]


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


# Each is blocked by the directive of its name.
_INJECTIONS = {
    "script-src-elem": """
        const script = document.createElement("script");
        script.textContent = "window.injected = true";
        document.body.append(script);""",
    "script-src-attr": """
        const button = document.createElement("button");
        button.setAttribute("onclick", "window.injected = true");
        document.body.append(button);
        button.click();""",
    "img-src": """new Image().src = elsewhere;""",
    "style-src-attr": """document.body.setAttribute("style", `background: url(${elsewhere})`);""",
    "connect-src": """fetch(elsewhere, {mode: "no-cors"}).catch(() => {});""",
    "frame-src": """
        const frame = document.createElement("iframe");
        frame.src = elsewhere;
        document.body.append(frame);""",
    "form-action": """
        const form = document.createElement("form");
        form.action = elsewhere;
        document.body.append(form);
        form.submit();""",
    "base-uri": """
        const base = document.createElement("base");
        base.href = elsewhere;
        document.head.append(base);""",
}


async def test_the_policy_blocks_injections_and_nothing_of_the_page(
    context: BrowserContext, page: Page, flow: ImplicitFlow, hostile: Site
) -> None:
    """A login logs nothing: scripts, images, styles, requests, frames, forms, base are blocked."""
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
