"""How the demo comes by its access token: by a login, as everybody does who uses a gateway."""

from typing import Final

from gateway_sdk.auth import (
    ImplicitFlow,
    MemoryStore,
    SharedTokenSource,
    Token,
    TokenKey,
    login,
)
from gateway_sdk.sandbox import AUTHORIZE_PATH, SANDBOX_CLIENT_ID, Visitor

ACCOUNT: Final = "ada@example.com"

PATIENCE: Final = 30.0
"""Seconds for the login of a visitor, which takes some milliseconds."""


def token_source(address: str, *, by_hand: bool) -> SharedTokenSource:
    """Make a source that logs in to the sandbox at this address when a token is needed.

    Args:
        address: The sandbox's base URL.
        by_hand: Whether the user logs in, with a browser; else it is a visitor, unseen.
    """
    flow = ImplicitFlow(address + AUTHORIZE_PATH, SANDBOX_CLIENT_ID)

    async def acquire() -> Token:
        if by_hand:
            return await login(flow)
        return await login(
            flow, browser=Visitor(account=ACCOUNT), show=lambda _: None, timeout=PATIENCE
        )

    key = TokenKey.of(flow.authorization_url, flow.client_id, address)
    return SharedTokenSource(MemoryStore(key), acquire)


def login_words(*, by_hand: bool) -> str:
    """Say who logged in, and how."""
    if by_hand:
        return "in your browser, by the implicit flow"
    return f"as {ACCOUNT}, by the implicit flow; a script plays the browser"
