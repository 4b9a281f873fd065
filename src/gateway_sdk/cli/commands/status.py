"""The commands `gateway status` and `gateway profiles`: the settings in force, and others."""

import hashlib
import time
from collections.abc import Iterator
from typing import Final

import typer

from gateway_sdk.auth import Token
from gateway_sdk.cli.arguments import AsCsv, AsJson
from gateway_sdk.cli.config import (
    REMEMBERED,
    AuthUrl,
    ClientId,
    Settings,
    find_settings,
    read_profiles,
    remove_profile,
    settings_of,
)
from gateway_sdk.cli.failure import FAILED, CommandError
from gateway_sdk.cli.output.console import make_console
from gateway_sdk.cli.output.key_values import KeyValue, describe_moment, print_key_values
from gateway_sdk.cli.output.show import choose_form, show
from gateway_sdk.cli.output.stdout import say
from gateway_sdk.cli.output.table import Table
from gateway_sdk.cli.session import run

UNTIL_REFUSED: Final = "it is refused: the authorization server did not say when it ends"


def status(ctx: typer.Context, auth_url: AuthUrl = None, client_id: ClientId = None) -> None:
    """Show which settings are in force, where each comes from, and the access token.

    The exit status is 0 if there is a usable access token, else 1. The token itself is never shown.
    """
    settings, console = settings_of(ctx, auth_url=auth_url, client_id=client_id), make_console()
    if settings.get("access_token"):
        print_key_values(console, settings.facts())
        print_key_values(console, [("Token", _describe_secret(settings))])
        return
    store = settings.store()
    print_key_values(console, settings.facts())
    print_key_values(console, [("Kept in", settings.place())])
    token, now = run(store.load()), time.time()
    if token is not None:
        print_key_values(console, token_facts(token, now))
    if problem := problem_of(token, now):
        raise CommandError(f"{problem}\nGet one with `gateway login`.", FAILED)


def _describe_secret(settings: Settings) -> str:
    """Say what tells one token from another, and nothing of it: a token may be short."""
    secret = settings.get("access_token") or ""
    digest = hashlib.sha256(secret.encode()).hexdigest()[:8]
    source = settings.source("access_token")
    return f"{len(secret)} characters, SHA-256 begins with {digest} ({source})"


def token_facts(token: Token, now: float) -> Iterator[KeyValue]:
    """Tell since when and until when a token is valid; *now* in seconds since 1970."""
    yield "Since", describe_moment(token.obtained_at, now)
    yield "Until", describe_end(token, now)


def describe_end(token: Token, now: float) -> str:
    """Say until when a token lasts."""
    return UNTIL_REFUSED if token.expires_at is None else describe_moment(token.expires_at, now)


def problem_of(token: Token | None, now: float) -> str | None:
    """Say why sessions would not use a token; None if they would."""
    if token is None:
        return "there is no access token"
    if token.expired(now, leeway=0.0):
        return "the access token has expired"
    if token.expired(now):
        return "the access token is about to expire"
    return None


def profiles(
    ctx: typer.Context,
    *,
    remove: str | None = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the gateways that `gateway login` has remembered.

    A command takes the profile that --profile names, else that of GATEWAY_PROFILE, else "default".

    Args:
        remove (NAME): Forget a profile; its token is left.
    """
    form = choose_form(as_json=as_json, as_csv=as_csv)
    if remove is not None:
        remove_profile(remove)
        say(f"The profile {remove} is forgotten.")
        return
    known = read_profiles()
    if not known:
        say("There are none: `gateway login --base-url ...` makes one.")
        return
    chosen = find_settings({}, ctx.find_root().params["profile"]).profile
    rows = [
        [name, "yes" if name == chosen else "", *(held.get(key) for key in REMEMBERED)]
        for name, held in known.items()
    ]
    show(Table(("profile", "used", *REMEMBERED), rows), known, form)
