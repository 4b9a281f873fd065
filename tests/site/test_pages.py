"""The pages in a real browser: what they load, how accessible they are, and their search."""

import re
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote_plus

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
    "resume": "bulk#resume-after-a-crash-or-kill-9",
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
    "graceful shutdown": "tutorials/web-service#graceful-shutdown",
    "readiness probe": "tutorials/web-service#health-check-liveness-and-readiness-probe",
    "health check": "tutorials/web-service#health-check-liveness-and-readiness-probe",
    "liveness": "tutorials/web-service#health-check-liveness-and-readiness-probe",
    "kubernetes": "tutorials/web-service#graceful-shutdown",
    "multi tenant": "tutorials/web-service#one-view-for-each-tenant",
    "fastapi": "tutorials/web-service",
    "SIGTERM": "command-line#exit-status",
    "idempotency key": "how-to/onboarding",
    "duplicate": "questions#is-there-an-idempotency-key-so-that-a-retry-creates-no-duplicate",
    "csv import": "how-to/onboarding",
    "excel": "reference/bulk#gateway_sdk.bulk.export",
    "onboarding": "how-to/onboarding",
    "migrate from httpx": "how-to/from-httpx",
    "raise_for_status": "how-to/from-httpx",
    "timeout command line": "command-line#a-time-limit-for-a-command",
    "exit status": "command-line#exit-status",
    "mypy": "questions#does-it-work-with-mypy-and-pyright",
    "pyright": "questions#does-it-work-with-mypy-and-pyright",
    "client credentials": "how-to/service-account",
    "service account": "how-to/service-account",
    "machine to machine": "questions#how-do-i-log-in-as-a-service-account-machine-to-machine",
    "expires_at": "how-to/service-account",
    "exactly once": "how-to/arq",
    "arq": "how-to/arq",
    "warm-up": "reference/session#gateway_sdk.GatewaySession.connect",
    "self-signed": "how-to/network#custom-ca-a-companys-certificate-authority",
    "mutual TLS": "how-to/network#client-certificate-mutual-tls-mtls",
    "SSL_CERT_FILE": "how-to/network#custom-ca-a-companys-certificate-authority",
    "celery": "how-to/queues#celery",
    "taskiq": "how-to/queues#taskiq",
    "sentry": "observing#sentry-and-datadog",
    "opentelemetry": "observing#opentelemetry",
    "logging": "observing#the-log",
    "upload large file": "how-to/uploads",
    "pytest fixture": "testing#the-fixtures",
    "respx": "testing#mock-without-a-gateway",
    "lambda": "how-to/event-loops#a-function-that-is-started-for-each-event",
    "jupyter": "how-to/event-loops",
    "thread safe": "how-to/event-loops",
    "default timeout": "configuration#a-session",
    "connection pool": "performance",
    "journal": "bulk#the-journal",
    "kill -9": "bulk",
    "rate limit": "bulk#finding-the-limit",
    "redis": "how-to/headless-login#many-machines",
}
"""Words of users, and the page that answers: it is among the first three results."""
WIDE = ("reference/operations.html", "outcomes.html")
"""Tables of five and more columns, which scroll on a phone."""
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
    field = page.get_by_role("combobox", name="Search")
    for _ in range(20):  # nobody hears the key until the script of the page has begun to listen
        if not await field.is_visible():
            await page.keyboard.press("Control+k")
        with suppress(AssertionError):
            await expect(field).to_be_focused(timeout=1_000)
            break
    await expect(field).to_be_focused()
    await page.keyboard.type(words)


@pytest.mark.parametrize("scheme", ["light"], indirect=True)
@pytest.mark.parametrize("page", ["wide"], indirect=True)
async def test_the_search_answers_what_users_ask(page: Page, address: str) -> None:
    await page.goto(f"{address}/index.html", wait_until="networkidle")
    await search(page, "")
    asked_in = page.get_by_role("combobox", name="Search")
    missed: list[str] = []
    for asked, place in ANSWERS.items():
        await asked_in.fill(asked)
        name, _, heading = place.partition("#")
        # A link says what was searched for: those of the question before are gone then.
        said = rf"\?h=[^#]*{re.escape(quote_plus(asked.split()[-1]))}"
        links = page.locator("a[role=option]")
        await expect(links.first, asked).to_have_attribute("href", re.compile(said), timeout=20_000)
        right = re.compile(rf"/{name}\.html\?h=" + (f".*#{re.escape(heading)}$" if heading else ""))
        for _ in range(30):  # frames: parts of the index answer one after the other
            shown = await links.evaluate_all("all => all.slice(0, 3).map(it => it.href)")
            if any(map(right.search, shown)):
                break
            await page.evaluate("new Promise(requestAnimationFrame)")
        else:
            missed.append(f"{asked}: {shown}")

    assert len(ANSWERS) >= 54
    assert not missed


@pytest.fixture
def every_page(site: Path) -> list[str]:
    return [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html"))]


CUT = """selector => [...document.querySelectorAll('.md-content ' + selector)]
    .filter(it => it.scrollWidth > it.clientWidth + 1).map(it => it.textContent.trim().slice(0, 60))
"""


@pytest.mark.parametrize(
    ("width", "media", "kinds"),
    [
        (1440, "screen", ["pre > code", "table"]),
        (390, "screen", ["table"]),
        (717, "print", ["pre > code", "table"]),  # A4 between Chromium's margins
    ],
)
async def test_nothing_is_cut_off(
    browser: Browser,
    address: str,
    every_page: list[str],
    width: int,
    media: Literal["screen", "print"],
    kinds: list[str],
) -> None:
    """On a desktop and on paper all is seen as a whole; on a phone long lines of code scroll."""
    page = await browser.new_page(viewport={"width": width, "height": 900})
    await page.emulate_media(media=media)
    cut: list[str] = []
    frames = {"table": ".md-typeset__scrollwrap", "pre > code": "pre > code"}
    for name in every_page:
        await page.goto(f"{address}/{name}")
        for kind in kinds:
            cut += [f"{name}: {it}" for it in await page.evaluate(CUT, frames[kind])]
    await page.close()

    assert [it for it in cut if not it.startswith(WIDE if width < 400 else "-")] == []


BROKEN = """() => [...document.querySelectorAll('.md-typeset td:first-child code')].filter(
    it => [...it.childNodes].some(part => {
        const range = document.createRange();
        range.selectNode(part);
        return !/[\\s-]/.test(part.textContent) && range.getClientRects().length > 1;
    })).map(it => it.textContent)"""


async def test_a_name_in_a_table_breaks_beside_its_signs_only(
    browser: Browser, address: str, every_page: list[str]
) -> None:
    page = await browser.new_page(viewport={"width": 390, "height": 800})
    broken: list[str] = []
    for name in every_page:
        await page.goto(f"{address}/{name}")
        broken += [f"{name}: {it}" for it in await page.evaluate(BROKEN)]
    await page.close()

    assert broken == []


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
