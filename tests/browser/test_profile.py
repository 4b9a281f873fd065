"""What a browser stores of a login on the disk."""

import asyncio
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from playwright.async_api import BrowserContext, BrowserType
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send

from gateway_sdk.auth import ImplicitFlow
from gateway_sdk.sandbox._server import serve
from tests.browser.chromium import ARGUMENTS
from tests.browser.logins import log_in, under_way

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Of every URL, as soon as the tab is there: before the page can run.
WRITTEN_BY_CHROMIUM = {
    "History",  # the history
    "Sessions",  # the session's tabs
    "segmentation_platform",  # usage statistics
}


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


class Mirror:
    """A site whose page shows its own URL with the fragment."""

    def __init__(self) -> None:
        self.told: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "POST":
            self.told.set_result((await request.body()).decode())
        page = HTMLResponse("<script>fetch('', {method: 'POST', body: location.href})</script>")
        await page(scope, receive, send)


async def test_an_ordinary_window_stores_the_url(
    profile: BrowserContext, sandbox_flow: ImplicitFlow, tmp_path: Path
) -> None:
    """The token stays in Chromium's records of addresses, where no page can reach, and only there.

    Chromium 150 keeps it in the list of what was visited (Default/History), in the journal of tabs
    (Default/Sessions, as an entry that a clean one follows) and at times in segmentation_platform.
    """
    async with under_way(sandbox_flow) as waiting:
        token = await log_in(await profile.new_page(), waiting)
    await profile.close()

    assert "History" in holders(tmp_path, token)
    assert holders(tmp_path, token) <= WRITTEN_BY_CHROMIUM


async def test_a_private_window_stores_nothing(
    profile: BrowserContext, flow: ImplicitFlow, tmp_path: Path
) -> None:
    """After a login in a private window no file of the profile contains the token."""
    assert profile.browser is not None
    window = await profile.browser.new_context()
    async with under_way(flow) as waiting:
        token = await log_in(await window.new_page(), waiting)
    await profile.close()

    assert holders(tmp_path, token) == set()


async def test_tabs_are_restored_without_the_token(
    profile: BrowserContext,
    chromium: BrowserType,
    executable: str,
    sandbox_flow: ImplicitFlow,
    tmp_path: Path,
) -> None:
    """A browser that restores its tabs opens the clean URL, whichever server is there now."""
    async with under_way(sandbox_flow) as waiting:
        await log_in(await profile.new_page(), waiting)
    await profile.close()

    mirror, port = Mirror(), urlsplit(waiting.redirect_uri).port
    assert port is not None
    async with serve(mirror, "127.0.0.1", port):
        restored = await chromium.launch_persistent_context(
            tmp_path, executable_path=executable, args=[*ARGUMENTS, "--restore-last-session"]
        )
        assert await mirror.told == waiting.redirect_uri
        await restored.close()
