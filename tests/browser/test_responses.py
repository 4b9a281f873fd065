"""The forms of authorization responses, as a browser delivers them."""

from collections.abc import Callable
from urllib.parse import quote, unquote

import pytest
from playwright.async_api import Page

from gateway_sdk import AuthorizationDeniedError
from gateway_sdk.auth import ImplicitFlow
from tests.browser.foreign_server import TOKEN, ForeignServer
from tests.browser.logins import NOT_LOGGED_IN, decide, log_in, shows, under_way

pytestmark = pytest.mark.asyncio(loop_scope="session")


def all_in_the_query(location: str) -> str:
    """Put the whole response into the query, as in the code flow."""
    return location.replace("#", "?", 1)


def state_in_the_query(location: str) -> str:
    """Leave the token in the fragment, and put the state into the query."""
    address, _, fragment = location.partition("#")
    pairs = fragment.split("&")
    (state,) = (pair for pair in pairs if pair.startswith("state="))
    pairs.remove(state)
    return f"{address}?{state}#{'&'.join(pairs)}"


def raw_token(location: str) -> str:
    """Leave every character of the token unencoded."""
    assert quote(TOKEN, safe="") in location
    return location.replace(quote(TOKEN, safe=""), TOKEN)


def raw_plus(location: str) -> str:
    """Leave only the plus unencoded, as encoders of paths do."""
    return location.replace(quote(TOKEN, safe=""), quote(TOKEN, safe="+"))


def whole_token_encoded(location: str) -> str:
    triples = "".join(f"%{byte:02x}" for byte in TOKEN.encode())
    return location.replace(quote(TOKEN, safe=""), triples)


@pytest.mark.parametrize(
    "reshape",
    [
        str,
        raw_token,
        pytest.param(raw_plus, marks=pytest.mark.full),
        pytest.param(whole_token_encoded, marks=pytest.mark.full),
        state_in_the_query,
    ],
)
async def test_a_token_arrives_unchanged(
    page: Page,
    foreign_server: ForeignServer,
    foreign_flow: ImplicitFlow,
    reshape: Callable[[str], str],
) -> None:
    """Its plus, slash and equals sign arrive, encoded or not, wherever the state is."""
    foreign_server.reshape = reshape
    async with under_way(foreign_flow) as waiting:
        token = await log_in(page, waiting)

    assert token == TOKEN
    assert unquote(page.url) == waiting.redirect_uri


async def test_a_long_token_arrives(
    page: Page, foreign_server: ForeignServer, foreign_flow: ImplicitFlow
) -> None:
    """A token of tens of thousands of characters is accepted."""
    foreign_server.token = "long" * 10_000
    async with under_way(foreign_flow) as waiting:
        assert await log_in(page, waiting) == foreign_server.token


async def test_an_error_in_the_query_is_understood(
    page: Page, foreign_server: ForeignServer, foreign_flow: ImplicitFlow
) -> None:
    """An error in the query is the same as one in the fragment; the address bar is cleared too."""
    foreign_server.reshape = all_in_the_query
    async with under_way(foreign_flow) as waiting:
        await decide(page, waiting, "deny")
        await shows(page, NOT_LOGGED_IN, "The login was refused (access_denied).")
        with pytest.raises(AuthorizationDeniedError, match="access_denied"):
            await waiting.token

    assert page.url == waiting.redirect_uri
