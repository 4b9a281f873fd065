"""Deleting the token, and saying what that does not do."""

import time
from typing import Final

from gateway_sdk.auth import Token, TokenStore
from gateway_sdk.cli.console import make_console
from gateway_sdk.cli.facts import print_facts
from gateway_sdk.cli.run import run
from gateway_sdk.cli.settings import LoginSettings
from gateway_sdk.errors import TokenStoreError

NOTHING_THERE: Final = "There was no access token."
UNREADABLE: Final = "What was there was no usable record of an access token; it is deleted."


def log_out(settings: LoginSettings) -> None:
    """Delete the token, if there is one.

    Raises:
        ConfigurationError: a setting is wrong; the message names it.
        TokenStoreError: the store cannot be used.
    """
    store, console = settings.store(), make_console()
    print_facts(console, settings.facts())
    console.print(f"\n{run(_delete(store))}")


async def _delete(store: TokenStore) -> str:
    """Delete the token and say what that meant."""
    try:
        token = await store.load()
        outcome = NOTHING_THERE if token is None else _deleted(token, time.time())
    except TokenStoreError:
        # If it was the store and not what it holds, deleting fails too.
        outcome = UNREADABLE
    await store.delete()
    return outcome


def _deleted(token: Token, now: float) -> str:
    if token.expired(now, leeway=0.0):
        return f"The access token is deleted; it had expired at {token.ends}."
    return (
        "The access token is deleted here. The authorization server knows nothing of it: there the"
        f" token stays valid until {token.ends or 'it expires'}, and programs that have read it go"
        " on using it."
    )
