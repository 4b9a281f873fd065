"""The pages in a real browser: what they load, how accessible they are, and their search."""

import re
from collections.abc import AsyncGenerator
from typing import Any, Literal

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGES = (
    "index",
    "questions",
    "tutorials/first-call",
    "how-to/unknown-outcome",
    "reference/session",
    "outcomes",
)
ANSWERS = {
    "custom CA": "how-to/network#custom-ca-a-companys-certificate-authority",
    "token callback": "tokens",
    "bound memory": "bulk#bound-the-memory-of-a-bulk-run",
    "pagination": "how-to/replies#all-pages-of-the-orders-pagination",
    "exceptions of upload_document": "questions#which-exceptions-can-upload_document-raise",
    "resume": "tutorials/bulk-run#resume-after-a-crash-or-kill-9",
    "mock": "testing#mock-without-a-gateway",
    "proxy": "how-to/network",
    "headless login": "how-to/headless-login",
    "cancellation": "how-to/deadlines#cancellation-cancel-a-call",
    "exact types": "how-to/replies#exact-types-for-replies-into",
    "Django": "tutorials/web-service#django",
    "data frames": "how-to/replies#data-frames-pandas-polars-duckdb",
    "per-call time-out": "how-to/deadlines#per-call-time-out-limit-the-time-of-one-call",
    "cancel_order": "reference/areas#gateway_sdk.areas.wallet.WalletArea.cancel_order",
    "personal data": "observing#personal-data",
    "queue worker errors": "how-to/queues#which-errors-to-catch-in-a-queue-worker",
    "decimal": "how-to/replies#keep-decimals-exact",
    "environment variables": "configuration#environment-variables",
    "how long is a token kept valid": "questions#how-long-is-a-token-valid-and-how-long-is-it-kept",
    "journal two processes": "questions#can-two-processes-use-one-journal",
}
SIZES = {"wide": (1300, 900), "narrow": (390, 800)}
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@pytest_asyncio.fixture(loop_scope="session", params=SIZES)
async def page(
    request: pytest.FixtureRequest, browser: Browser, scheme: Literal["light", "dark"]
) -> AsyncGenerator[Page]:
    """Provide a page of a wide or a narrow window."""
    width, height = SIZES[request.param]
    context = await browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": height}
    )
    yield await context.new_page()
    await context.close()


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("name", PAGES)
async def test_a_page_is_accessible_and_asks_no_other_host(
    page: Page, address: str, name: str
) -> None:
    """Axe finds nothing serious, no script fails, and no request leaves the site."""
    asked: list[str] = []
    failed: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: failed.append(str(error)))

    await page.goto(f"{address}/{name}.html", wait_until="networkidle")
    found: Any = await Axe().run(page)

    serious = [
        f"{problem['id']}: {problem['help']}: {[node['target'] for node in problem['nodes']][:3]}"
        for problem in found.response["violations"]
        if problem["impact"] in ("serious", "critical")
    ]
    assert not serious
    assert not failed
    assert asked
    assert all(url.startswith((address, "data:", "blob:")) for url in asked)


async def test_the_page_does_not_scroll_sideways(page: Page, address: str) -> None:
    for name in PAGES:
        await page.goto(f"{address}/{name}.html")
        widths = await page.evaluate("[document.body.scrollWidth, window.innerWidth]")
        assert widths[0] <= widths[1], name


async def search(page: Page, words: str) -> None:
    """Open the search by its key, and type; letters outside of its field are keys of the page."""
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("combobox", name="Search")).to_be_focused(timeout=20_000)
    await page.keyboard.type(words)


@pytest.mark.parametrize("scheme", ["light"], indirect=True)
@pytest.mark.parametrize("page", ["wide"], indirect=True)
async def test_the_search_answers_what_users_ask(page: Page, address: str) -> None:
    for asked, place in ANSWERS.items():
        await page.goto(f"{address}/index.html", wait_until="networkidle")
        await search(page, asked)
        name, _, heading = place.partition("#")
        expected = re.compile(
            rf"/{name}\.html\?h=[^#]*{f'#{re.escape(heading)}' if heading else ''}$"
        )
        result = page.locator("a[role=option]").first
        await expect(result, asked).to_have_attribute("href", expected, timeout=20_000)


@pytest.mark.parametrize("scheme", ["light"], indirect=True)
@pytest.mark.parametrize("page", ["wide"], indirect=True)
async def test_the_keyboard_is_enough(page: Page, address: str) -> None:
    """The first stop skips the navigation; the search opens, finds and leads on by keys."""
    await page.goto(f"{address}/index.html", wait_until="networkidle")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent.trim()") == "Skip to content"

    await search(page, "cancel_order")
    # Results of the first letters come earlier; their links say what was searched for.
    chosen = page.get_by_role("option", selected=True)
    await expect(chosen).to_have_attribute("href", re.compile(r"\?h=cancel_order"))
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/*.html?h=*", wait_until="networkidle")
