from collections.abc import AsyncGenerator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from playwright.async_api import (
    Browser,
    BrowserContext,
    BrowserType,
    Page,
    async_playwright,
    expect,
)

from gateway_sdk.auth import ImplicitFlow
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Sandbox
from tests.browser.chromium import ARGUMENTS, EVIL, find_chromium
from tests.browser.logins import Site, Witness, blank

# In ms: longer than the slowest machine needs.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="session")
def executable() -> str:
    if (path := find_chromium()) is None:
        pytest.skip("not tested, because no Chromium was found")
    return path


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium(executable: str) -> AsyncGenerator[BrowserType]:
    async with async_playwright() as playwright:
        yield playwright.chromium


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(
    chromium: BrowserType, executable: str, flow: ImplicitFlow
) -> AsyncGenerator[Browser]:
    """For it the authorization server is on the internet, and EVIL is a name of this machine."""
    server = urlsplit(flow.authorization_url).netloc
    args = (
        *ARGUMENTS,
        f"--ip-address-space-overrides={server}=public",
        f"--host-resolver-rules=MAP {EVIL} 127.0.0.1",
    )
    browser = await chromium.launch(executable_path=executable, args=args)
    yield browser
    await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def profile(
    chromium: BrowserType, executable: str, tmp_path: Path
) -> AsyncGenerator[BrowserContext]:
    context = await chromium.launch_persistent_context(
        tmp_path, executable_path=executable, args=ARGUMENTS
    )
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def context(browser: Browser) -> AsyncGenerator[BrowserContext]:
    """Provide a private window, which has no data of other tests."""
    context = await browser.new_context()
    yield context
    await context.close()


@pytest_asyncio.fixture(loop_scope="session")
async def page(context: BrowserContext) -> Page:
    return await context.new_page()


@pytest_asyncio.fixture(loop_scope="session")
async def witness(monkeypatch: pytest.MonkeyPatch) -> Witness:
    return Witness(monkeypatch)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def flow() -> AsyncGenerator[ImplicitFlow]:
    async with Sandbox().serve() as base_url:
        yield ImplicitFlow(f"{base_url}{AUTHORIZE_PATH}", SANDBOX_CLIENT_ID)


@pytest_asyncio.fixture(loop_scope="session")
async def hostile() -> AsyncGenerator[Site]:
    async with Site(blank).serve() as site:
        yield site
