"""Hostile pages and browsers during a login; who has its port before and after it."""

import asyncio
import sys
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from gateway_sdk import LoginError, LoginTimeoutError
from gateway_sdk.auth import ImplicitFlow
from gateway_sdk.auth._login import login as logins, server
from tests.auth.visits import release_ports
from tests.browser.chromium import EVIL
from tests.browser.logins import (
    ICON,
    LOGGED_IN,
    NOT_OURS,
    Site,
    Witness,
    decide,
    log_in,
    shows,
    under_way,
)
from tests.support.ports import free_port

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORGED = "access_token=evil&token_type=Bearer&state=forged"


_LOADED = """(target) => new Promise((done) => {
    const element = document.createElement("TAG");
    element.onload = () => done("loaded");
    element.onerror = () => done("refused");
    element.src = target;
    document.body.append(element);
})"""
_FETCHED = """(target) => fetch(target, {BODY, HOW}).then(() => "sent", () => "refused")"""
_BODY = """method: "POST", body: JSON.stringify({fragment: "FORGED", query: ""})"""
# Each returns what the page learns, and with it what reaches the receiver.
ATTACKS = {
    "picture": (_LOADED.replace("TAG", "img"), ("GET", 403)),
    "script": (_LOADED.replace("TAG", "script"), ("GET", 403)),
    "frame": (
        """(target) => new Promise((done) => {
            const frame = document.createElement("iframe");
            frame.onload = () => done(frame.contentDocument ? "loaded" : "refused");
            frame.src = `${target}#FORGED`;
            document.body.append(frame);
        })""",
        ("GET", 403),
    ),
    "fetch": (_FETCHED.replace("BODY, HOW", ""), ("GET", 403)),
    "fetch without CORS": (_FETCHED.replace("HOW", 'mode: "no-cors"'), ("POST", 403)),
    "fetch of JSON": (
        _FETCHED.replace("HOW", 'headers: {"Content-Type": "application/json"}'),
        ("OPTIONS", 405),
    ),
}


async def test_requests_of_another_page_are_refused(
    context: BrowserContext, flow: ImplicitFlow, witness: Witness, hostile: Site
) -> None:
    """Nothing that a page can send is read, of the same site (another port) or of another one."""
    async with under_way(flow) as waiting:
        await waiting.open(await context.new_page())
        origins = (hostile.url, hostile.url.replace("127.0.0.1", "localhost"))
        for done, origin in enumerate(origins):
            page = await context.new_page()
            witness.requests.clear()
            for number, (name, (attack, seen)) in enumerate(ATTACKS.items()):
                await page.goto(origin)
                outcome = await page.evaluate(
                    attack.replace("BODY", _BODY).replace("FORGED", FORGED), waiting.redirect_uri
                )
                assert (name, outcome) == (name, "refused")
                assert witness.at("/callback")[number:] == [seen], name

            # A form that looks like JSON navigates the tab.
            await page.goto(origin)
            async with page.expect_navigation():
                await page.evaluate(
                    """(target) => {
                        document.body.innerHTML = `<form method="post" enctype="text/plain"
                            action="${target}"><input name='{"fragment": "' value='"}'></form>`;
                        document.forms[0].submit();
                    }""",
                    waiting.redirect_uri,
                )
            assert witness.at("/callback")[-1] == ("POST", 403)
            assert await page.text_content("body") == "Only this address's own page may do that.\n"
            assert witness.refused == done

            # Our own page posts what it is redirected with: there the state decides.
            await page.goto(origin)
            forged = f"{waiting.redirect_uri}#{FORGED}"
            await page.evaluate("(target) => { location = target; }", forged)
            await shows(page, NOT_OURS, "another state")
            assert witness.at("/callback")[-2:] == [("GET", 200), ("POST", 400)]
            assert witness.refused == done + 1
        assert await log_in(await context.new_page(), waiting) != "evil"


async def test_the_opener_of_the_page_cannot_read_it(
    context: BrowserContext, flow: ImplicitFlow, hostile: Site
) -> None:
    """When the response arrives in a window, the page that opened the window is cut off from it."""
    async with under_way(flow) as waiting:
        page = await context.new_page()
        await page.goto(hostile.url)
        async with page.expect_popup() as opened:
            await page.evaluate("(url) => { window.popup = open(url); }", waiting.url)
        popup = await opened.value
        await popup.click("#allow")
        await shows(popup, LOGGED_IN)
        await waiting.token
        assert await popup.evaluate("window.opener") is None
        assert await page.evaluate("window.popup.closed")


async def test_another_name_for_this_machine_is_refused(
    context: BrowserContext, flow: ImplicitFlow, witness: Witness
) -> None:
    """A name that resolves to 127.0.0.1 makes a page of the receiver's origin, and no more."""
    async with under_way(flow) as waiting:
        evil = waiting.redirect_uri.replace("127.0.0.1", EVIL)
        page = await context.new_page()
        reply = await page.goto(f"{evil}#{FORGED}")
        assert reply is not None
        assert reply.status == 421
        # For the browser this is the page of that origin: it reads the reply.
        status = await page.evaluate(
            """async (url) => (await fetch(url, {
                method: "POST", headers: {"Content-Type": "application/json"},
                body: JSON.stringify({fragment: "access_token=evil&state=forged", query: ""}),
            })).status""",
            evil,
        )
        assert status == 421
        # Chromium sends a request again after this status (RFC 9110, 15.5.20).
        assert set(witness.at("/callback")) == {("GET", 421), ("POST", 421)}
        assert witness.refused == 0
        await log_in(await context.new_page(), waiting)


# --- another browser --------------------------------------------------------------------------


async def test_another_browser_cannot_finish_the_login(
    browser: Browser, context: BrowserContext, page: Page, flow: ImplicitFlow
) -> None:
    thief = await browser.new_page()
    async with under_way(flow) as waiting:
        await waiting.open(page)
        await decide(thief, waiting)  # at the authorization URL with the state
        await shows(thief, "The login was started in another browser", "Open the address that the")
        assert not waiting.token.done()
        await log_in(await context.new_page(), waiting)
    await thief.close()


# --- what earlier servers have left at the port, and other ports -----------------------------

_THIEF = f"{ICON}<script>document.title = `stolen ${{location.hash}}`</script>"


def cacheable(_: Request) -> Response:
    """Reply with a page that takes the fragment and may be cached for a year."""
    return HTMLResponse(_THIEF, headers={"Cache-Control": "max-age=31536000"})


async def leave_page(page: Page) -> str:
    """Let the browser cache the page at the path of the answer; return the redirect URI."""
    async with Site(cacheable).serve() as site:
        await page.goto(f"{site.url}/callback")
    target = f"{site.url}/callback#access_token=CANARY"
    async with Site(cacheable).serve() as other:  # a page of the same site, as a login's often is
        await page.goto(other.url)
        await page.evaluate("(target) => { location = target; }", target)
        await page.wait_for_url(target)
    # It runs without asking the port, where nothing listens: the danger is real.
    assert await page.title() == "stolen #access_token=CANARY"
    return f"{site.url}/callback"


@pytest.mark.parametrize("is_fixed", [True, False])
async def test_a_cached_page_gets_no_token(
    page: Page,
    flow: ImplicitFlow,
    witness: Witness,
    monkeypatch: pytest.MonkeyPatch,
    is_fixed: bool,
) -> None:
    """The start address deletes it, and the program gets the response, at any kind of port."""
    redirect_uri, listen = await leave_page(page), server.listen
    if not is_fixed:
        left, redirect_uri = httpx.URL(redirect_uri), logins.DEFAULT_REDIRECT_URI
        # The free port that the system chooses is the one at which the page was left.
        monkeypatch.setattr(logins, "listen", lambda _, bind: listen(left, bind))
    async with under_way(flow, redirect_uri=redirect_uri) as waiting:
        await waiting.open(page)
        # By a script: a redirect of the posted form would not be looked for in the cache.
        response = FORGED.replace("forged", httpx.URL(page.url).params["state"])
        await page.evaluate("(to) => { location = to; }", f"{waiting.redirect_uri}#{response}")
        assert (await waiting.token).value.get_secret_value() == "evil"
    assert [method for method, _ in witness.at("/callback")] == ["GET", "POST"]


async def test_a_server_at_another_port_cannot_use_the_login(
    page: Page, flow: ImplicitFlow, witness: Witness
) -> None:
    """Its pages get no cookie, except at the answer's path; with that one it gets no state."""
    async with Site(cacheable).serve() as other, under_way(flow) as waiting:
        await waiting.open(page)
        await page.goto(other.url)
        await page.goto(f"{other.url}/callback")
        nothing, cookie = (request.headers.get("cookie", "") for request in other.requests)
        assert (nothing, cookie.startswith("login-")) == ("", True)
        async with httpx.AsyncClient() as thief:
            reply = await thief.get(waiting.url, headers={"Cookie": cookie})
        with pytest.raises(LoginError, match="opened twice"):
            await waiting.token
    assert (reply.status_code, "location" in reply.headers) == (409, False)
    assert witness.starts == [200, 409]


# --- the port after the login ------------------------------------------------------------------

# Another user tries to bind the port in every way, as soon as it may be free.
THIEF = """
import os, socket, sys
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
for option in (None, socket.SO_REUSEADDR, socket.SO_REUSEPORT):
    with socket.socket() as thief:
        if option:
            thief.setsockopt(socket.SOL_SOCKET, option, 1)
        try:
            thief.bind(("127.0.0.1", int(sys.argv[1])))
            thief.listen()
        except OSError:
            continue
        sys.exit("it has the port")
"""


@pytest.mark.parametrize("is_fixed", [True, False])
@pytest.mark.parametrize("how", ["a time-out", "a cancellation", "a second opening"])
async def test_nobody_gets_the_port_while_the_tab_is_open(
    page: Page, flow: ImplicitFlow, how: str, is_fixed: bool
) -> None:
    """A tab that goes on after the end of the login hands its token to nobody, and is told so."""
    more: dict[str, Any] = {"timeout": 2} if how == "a time-out" else {}
    if is_fixed:
        more["redirect_uri"] = f"http://127.0.0.1:{free_port()}/callback"
    async with under_way(flow, **more) as waiting:
        await waiting.open(page)
        if how == "a cancellation":
            waiting.token.cancel()
        elif how == "a second opening":
            async with httpx.AsyncClient() as thief:
                await thief.get(waiting.url)
        await asyncio.wait([waiting.token])
        ended = waiting.token.cancelled() or type(waiting.token.exception())

    assert ended is {"a time-out": LoginTimeoutError, "a second opening": LoginError}.get(how, True)
    port = str(urlsplit(waiting.redirect_uri).port)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", THIEF, port)
    assert await process.wait() == 0
    await page.click("#allow")
    await shows(page, "This login has ended", "Close this tab")
    assert page.url == waiting.redirect_uri
    release_ports()
