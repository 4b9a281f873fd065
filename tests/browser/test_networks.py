"""Connections, names and networks between the browser and the receiver."""

import asyncio
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page

from gateway_sdk.auth import ImplicitFlow
from tests.browser.chromium import Launch
from tests.browser.hostile_server import HostileServer
from tests.browser.logins import Witness, decide, log_in, shows, under_way

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_idle_connections_do_not_delay_a_login(
    page: Page, sandbox_flow: ImplicitFlow, witness: Witness
) -> None:
    """Silent connections, which browsers keep open for later, do not affect the login."""
    async with under_way(sandbox_flow) as waiting:
        address = urlsplit(waiting.redirect_uri)
        idle = [await asyncio.open_connection(address.hostname, address.port) for _ in range(4)]
        await witness.connections(4)

        await log_in(page, waiting)

        # They end with the login, and not only after their time-out.
        async with asyncio.timeout(5):
            for reader, writer in idle:
                assert await reader.read() == b""
                writer.close()
                await writer.wait_closed()


async def test_another_name_for_this_machine_is_refused(
    launch: Launch, sandbox_flow: ImplicitFlow, witness: Witness
) -> None:
    """A name that resolves to 127.0.0.1 makes a page of the receiver's origin, and no more."""
    browser = await launch("--host-resolver-rules=MAP evil.test 127.0.0.1")
    async with under_way(sandbox_flow) as waiting:
        evil = waiting.redirect_uri.replace("127.0.0.1", "evil.test")
        page = await browser.new_page()
        reply = await page.goto(f"{evil}#access_token=evil&token_type=Bearer&state=forged")
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

        await log_in(await browser.new_page(), waiting)


async def test_an_authorization_server_on_the_internet_reaches_this_machine(
    launch: Launch, foreign_flow: ImplicitFlow, witness: Witness, hostile: HostileServer
) -> None:
    """Local Network Access keeps what public pages load off this machine, not whom they send.

    Should browsers begin to ask before they follow such a redirect too, this is where it shows.
    """
    server = urlsplit(foreign_flow.authorization_url).netloc
    browser = await launch(f"--ip-address-space-overrides={server}=public")
    async with under_way(foreign_flow) as waiting:
        page = await browser.new_page()
        await waiting.open(page)
        fetched = "(url) => fetch(url, {mode: 'no-cors'}).then(() => 'sent', () => 'refused')"
        # The browser does treat the server as a public one.
        assert await page.evaluate(fetched, hostile.url) == "refused"
        assert hostile.requests == []

        await decide(page, waiting)
        await shows(page, "You are logged in")
        await waiting.token

    assert witness.requests == [("GET", "/callback", 200), ("POST", "/callback", 200)]
