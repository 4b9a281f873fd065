"""The commands `gateway status` and `gateway profiles`."""

import hashlib
import time
from collections.abc import Iterator

import typer

from gateway_sdk.auth import Token
from gateway_sdk.cli.arguments import AsCsv, AsJson
from gateway_sdk.cli.config import (
    OPTIONS,
    find_settings,
    read_profiles,
    remove_profile,
    settings_of,
)
from gateway_sdk.cli.failure import FAILED, CommandError
from gateway_sdk.cli.output.console import KeyValue, make_console, print_key_values
from gateway_sdk.cli.output.show import choose_form, show
from gateway_sdk.cli.output.stdout import say
from gateway_sdk.cli.output.table import Table
from gateway_sdk.cli.output.values import describe_moment
from gateway_sdk.cli.session import run


def status(ctx: typer.Context, auth_url: str | None = None, client_id: str | None = None) -> None:
    """Show the settings in force, where each comes from, and how long the access token is valid.

    The exit status is 0 if there is a usable access token, else 1. The token itself is never shown.

    Args:
        auth_url (URL): The login page, in place of GATEWAY_AUTH_URL.
        client_id (ID): The client id, in place of GATEWAY_CLIENT_ID.
    """
    settings, console = settings_of(ctx, auth_url=auth_url, client_id=client_id), make_console()
    if secret := settings.values.get("access_token"):
        # Enough to recognize a token, and no part of it: a token may be short.
        digest = hashlib.sha256(secret.encode()).hexdigest()[:8]
        source = settings.sources["access_token"]
        told = f"{len(secret)} characters, SHA-256 begins with {digest} ({source})"
        print_key_values(console, [*settings.facts(), ("Token", told)])
        return
    print_key_values(console, settings.facts())  # also if others are missing
    store = settings.store()
    print_key_values(console, [("Kept in", settings.place())])
    token, now = run(store.load()), time.time()
    if token is not None:
        print_key_values(console, token_facts(token, now))
    if problem := problem_of(token, now):
        raise CommandError(f"{problem}\nGet one with `gateway login`.", FAILED)


def token_facts(token: Token, now: float) -> Iterator[KeyValue]:
    """Describe from when until when a token is valid; *now* in seconds since 1970."""
    yield "Since", describe_moment(token.obtained_at, now)
    yield "Until", describe_end(token, now)


def describe_end(token: Token, now: float) -> str:
    """Say until when a token lasts."""
    if token.expires_at is None:
        return "the gateway refuses it: the login did not say when it expires"
    return describe_moment(token.expires_at, now)


def problem_of(token: Token | None, now: float) -> str | None:
    """Say why sessions would not use a token; None if they would."""
    if token is None:
        return "there is no access token"
    if token.expired(now, leeway=0.0):
        return "the access token has expired"
    return "the access token is about to expire" if token.expired(now) else None


def profiles(
    ctx: typer.Context,
    *,
    remove: str | None = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the gateways that `gateway login` has remembered.

    A command uses the profile that --profile names, else that of GATEWAY_PROFILE, else "default".

    Args:
        remove (NAME): Delete a profile, but not its token.
    """
    form = choose_form(as_json=as_json, as_csv=as_csv)
    if remove is not None:
        remove_profile(remove)
        say(f"The profile {remove} is deleted.")
        return
    known = read_profiles()
    if not known:
        say("There are no profiles: `gateway login --base-url ...` makes one.")
        return
    chosen = find_settings({}, ctx.find_root().params["profile"]).profile
    rows = [
        [name, "yes" if name == chosen else "", *(held.get(key) for key in OPTIONS)]
        for name, held in known.items()
    ]
    show(Table(("profile", "used", *OPTIONS), rows), known, form)
