"""A hostile page, open in the same browser while a login waits."""

from typing import NamedTuple

import pytest
from playwright.async_api import BrowserContext

from gateway_sdk.auth import ImplicitFlow
from tests.browser.hostile_server import HostileServer
from tests.browser.logins import LOGGED_IN, NOT_OURS, Witness, log_in, shows, under_way

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORGED = "access_token=evil&token_type=Bearer&state=forged"


class Attack(NamedTuple):
    """The page's script, given the receiver's URL; the expected results in the page and there."""

    script: str
    outcome: str
    seen: tuple[str, int]


# Each returns what the page learns.
ATTACKS = {
    "picture": Attack(
        """(target) => new Promise((done) => {
            const image = new Image();
            image.onload = () => done("loaded");
            image.onerror = () => done("refused");
            image.src = target;
        })""",
        "refused",
        ("GET", 403),
    ),
    "script": Attack(
        """(target) => new Promise((done) => {
            const script = document.createElement("script");
            script.onload = () => done("loaded");
            script.onerror = () => done("refused");
            script.src = target;
            document.body.append(script);
        })""",
        "refused",
        ("GET", 403),
    ),
    "frame": Attack(
        """(target) => new Promise((done) => {
            const frame = document.createElement("iframe");
            frame.onload = () => done(frame.contentDocument ? "loaded" : "refused");
            frame.src = `${target}#FORGED`;
            document.body.append(frame);
        })""",
        "refused",
        ("GET", 403),
    ),
    "fetch": Attack(
        """(target) => fetch(target).then(() => "loaded", () => "refused")""",
        "refused",
        ("GET", 403),
    ),
    "fetch without CORS": Attack(
        """(target) => fetch(target, {
            method: "POST", mode: "no-cors", body: JSON.stringify({fragment: "FORGED", query: ""}),
        }).then(() => "sent", () => "refused")""",
        "refused",
        ("POST", 403),
    ),
    "fetch of JSON": Attack(
        """(target) => fetch(target, {
            method: "POST", headers: {"Content-Type": "application/json"},
            body: JSON.stringify({fragment: "FORGED", query: ""}),
        }).then(() => "sent", () => "refused")""",
        "refused",
        ("OPTIONS", 405),
    ),
}


def script_of(attack: Attack) -> str:
    return attack.script.replace("FORGED", FORGED)


@pytest.fixture(params=["same site", "other site"])
def origin(request: pytest.FixtureRequest, hostile: HostileServer) -> str:
    """Provide the site of the page: for Fetch Metadata, another port is the same site."""
    return hostile.url if request.param == "same site" else hostile.url_elsewhere


async def test_requests_of_another_page_are_refused(
    context: BrowserContext, sandbox_flow: ImplicitFlow, witness: Witness, origin: str
) -> None:
    """No request that a page can send is read, and the login continues."""
    async with under_way(sandbox_flow) as waiting:
        page = await context.new_page()
        for number, (name, attack) in enumerate(ATTACKS.items()):
            await page.goto(origin)
            outcome = await page.evaluate(script_of(attack), waiting.redirect_uri)
            assert (name, outcome) == (name, attack.outcome)
            assert witness.at("/callback")[number:] == [attack.seen], name

        assert witness.refused == 0
        assert await log_in(await context.new_page(), waiting) != "evil"


async def test_a_form_of_another_page_is_refused(
    context: BrowserContext, sandbox_flow: ImplicitFlow, witness: Witness, origin: str
) -> None:
    """A form that looks like JSON navigates the tab, and is not read."""
    async with under_way(sandbox_flow) as waiting:
        page = await context.new_page()
        await page.goto(origin)
        async with page.expect_navigation():
            await page.evaluate(
                """([target, forged]) => {
                    const form = document.createElement("form");
                    Object.assign(form, {method: "post", enctype: "text/plain", action: target});
                    const input = document.createElement("input");
                    input.name = `{"fragment": "${forged}", "query": "`;
                    input.value = `"}`;
                    form.append(input);
                    document.body.append(form);
                    form.submit();
                }""",
                [waiting.redirect_uri, FORGED],
            )

        assert witness.at("/callback") == [("POST", 403)]
        assert await page.text_content("body") == "Only this address's own page may do that.\n"
        assert witness.refused == 0
        assert await log_in(await context.new_page(), waiting) != "evil"


async def test_a_redirect_with_a_forged_answer_is_refused(
    context: BrowserContext, sandbox_flow: ImplicitFlow, witness: Witness, origin: str
) -> None:
    """Our own page posts what it is redirected with: there the state decides."""
    async with under_way(sandbox_flow) as waiting:
        await waiting.open(await context.new_page())
        page = await context.new_page()
        await page.goto(origin)
        await page.evaluate(
            "(target) => { location = target; }", f"{waiting.redirect_uri}#{FORGED}"
        )

        await shows(page, NOT_OURS, "another state")
        assert witness.requests == [("GET", "/callback", 200), ("POST", "/callback", 400)]
        assert witness.refused == 1
        assert await log_in(await context.new_page(), waiting) != "evil"


async def test_the_opener_of_the_page_cannot_read_it(
    context: BrowserContext, sandbox_flow: ImplicitFlow, hostile: HostileServer
) -> None:
    """When the response arrives in a window, the page that opened the window is cut off from it."""
    async with under_way(sandbox_flow) as waiting:
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
