"""What is known of the token that sessions would use."""

import time
from collections.abc import Iterator

from gateway_sdk.auth import Token
from gateway_sdk.cli.console import make_console
from gateway_sdk.cli.facts import Fact, print_facts
from gateway_sdk.cli.failure import FAILED, CommandError
from gateway_sdk.cli.run import run
from gateway_sdk.cli.settings import LoginSettings
from gateway_sdk.cli.times import describe_end, describe_start


def tell(settings: LoginSettings) -> None:
    """Show all but the token.

    Raises:
        CommandError: there is no usable token.
        ConfigurationError: a setting is wrong; the message names it.
        TokenStoreError: the store cannot be used, or what it holds is broken.
    """
    store, console = settings.store(), make_console()
    print_facts(console, settings.facts())
    token, now = run(store.load()), time.time()
    if token is not None:
        print_facts(console, token_facts(token, now))
    if token is not None and settings.has_access_token:
        console.print(
            "\nGatewaySession.from_env() uses it once GATEWAY_ACCESS_TOKEN is unset.",
            style="yellow",
        )
    if problem := problem_of(token, now):
        raise CommandError(f"{problem}\nGet one with `gateway login`.", FAILED)


def token_facts(token: Token, now: float) -> Iterator[Fact]:
    """Tell since when and until when a token is valid; *now* in seconds since 1970."""
    yield "Since", describe_start(token, now)
    yield "Until", describe_end(token, now)


def problem_of(token: Token | None, now: float) -> str | None:
    """Say why sessions would not use a token; None if they would."""
    if token is None:
        return "there is no access token"
    if token.expired(now, leeway=0.0):
        return "the access token has expired"
    if token.expired(now):
        return "the access token is about to expire, so sessions do not send it any more"
    return None
