"""The page that the response arrives at: the traces that it leaves, and what it prevents."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Error, Page, expect

from gateway_sdk.auth import ImplicitFlow
from tests.browser.hostile_server import HostileServer
from tests.browser.logins import Witness, decide, log_in, shows, under_way

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def page_without_scripts(browser: Browser) -> AsyncGenerator[Page]:
    context = await browser.new_context(java_script_enabled=False)
    yield await context.new_page()
    await context.close()


async def entries(page: Page, *, refused: bool = False) -> list[str]:
    """Return the URLs of the tab's Back and Forward, and its present one."""
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
    page: Page, sandbox_flow: ImplicitFlow, witness: Witness
) -> None:
    """Opening it without a response, or reloading it after a refusal, changes nothing."""
    async with under_way(sandbox_flow) as waiting:
        await waiting.open(page)
        await page.goto(f"{waiting.redirect_uri}#state=wrong")
        await shows(page, "This response belongs to another login")
        await page.reload()
        await shows(page, "No response", "Start the login again.")
        assert [method for method, _, _ in witness.requests] == ["GET", "POST", "GET"]

        await log_in(page, waiting)


async def test_without_scripts_the_address_can_be_pasted(
    page_without_scripts: Page, flow: ImplicitFlow, witness: Witness
) -> None:
    """A page that cannot deliver the response explains what to do, and that works."""
    pasted: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with under_way(flow, paste=lambda: pasted) as waiting:
        await decide(page_without_scripts, waiting)
        await shows(page_without_scripts, "One step is left")
        explanation = page_without_scripts.locator("noscript p").first
        await expect(explanation).to_contain_text("Copy the whole address of this page")
        await expect(explanation).to_be_visible()
        assert witness.requests == [("GET", "/callback", 200)]

        pasted.set_result(page_without_scripts.url)
        token = await waiting.token

    assert token.value.get_secret_value()


async def test_the_page_keeps_its_own_policy(
    context: BrowserContext, page: Page, flow: ImplicitFlow
) -> None:
    """A login violates no policy and logs nothing: the browser's console stays empty."""
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


_INJECTIONS = {
    "script-src-elem": """(elsewhere) => {
        const script = document.createElement("script");
        script.textContent = "window.injected = true";
        document.body.append(script);
    }""",
    "script-src-attr": """(elsewhere) => {
        const button = document.createElement("button");
        button.setAttribute("onclick", "window.injected = true");
        document.body.append(button);
        button.click();
    }""",
    "img-src": """(elsewhere) => {
        new Image().src = elsewhere;
    }""",
    "style-src-attr": """(elsewhere) => {
        document.body.setAttribute("style", `background: url(${elsewhere})`);
    }""",
    "connect-src": """(elsewhere) => {
        fetch(elsewhere, {mode: "no-cors"}).catch(() => {});
    }""",
    "frame-src": """(elsewhere) => {
        const frame = document.createElement("iframe");
        frame.src = elsewhere;
        document.body.append(frame);
    }""",
    "form-action": """(elsewhere) => {
        const form = document.createElement("form");
        form.action = elsewhere;
        document.body.append(form);
        form.submit();
    }""",
    "base-uri": """(elsewhere) => {
        const base = document.createElement("base");
        base.href = elsewhere;
        document.head.append(base);
    }""",
}


async def test_injected_content_is_blocked(
    page: Page, sandbox_flow: ImplicitFlow, hostile: HostileServer
) -> None:
    """The policy blocks scripts, images, styles, requests, frames, forms and base."""
    async with under_way(sandbox_flow) as waiting:
        await log_in(page, waiting)

        for directive, injection in _INJECTIONS.items():
            # Blocked by the policy: any other failure would come without this event.
            blocked = await page.evaluate(
                f"""(elsewhere) => new Promise((blocked) => {{
                    document.addEventListener("securitypolicyviolation",
                        (event) => blocked(event.effectiveDirective), {{once: true}});
                    ({injection})(elsewhere);
                }})""",
                f"{hostile.url}/secret",
            )

            assert blocked == directive
            assert await page.evaluate("window.injected") is None
            assert hostile.requests == []
            assert page.url == waiting.redirect_uri
