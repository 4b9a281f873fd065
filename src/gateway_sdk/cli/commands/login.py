"""The commands `gateway login` and `gateway logout`."""

import time
from dataclasses import replace
from typing import Annotated, Any, Final

import typer

from gateway_sdk.auth import Browser, ImplicitFlow, PasteFromTerminal, Token, TokenStore
from gateway_sdk.auth import login as log_in
from gateway_sdk.auth._receiver import can_listen
from gateway_sdk.cli.commands.status import describe_end
from gateway_sdk.cli.config import OPTIONS, Settings, save_profile, settings_of
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.output.console import make_console, print_key_values
from gateway_sdk.cli.session import run
from gateway_sdk.errors import TokenStoreError

TRIAL_LIFE: Final = 60.0
"""Seconds that a token for trial lasts, should it not be deleted."""


def login(
    ctx: typer.Context,
    *,
    auth_url: str | None = None,
    client_id: str | None = None,
    browser: str | None = None,
    no_browser: bool = False,
    paste: bool = False,
    redirect_uri: str = "http://127.0.0.1:0/callback",
    scope: str = "",
    timeout: Annotated[float, typer.Option(min=0.1)] = 300,
) -> None:
    """Log in with a browser, and keep the access token for programs.

    The addresses that options give are remembered, in the profile "default" or the one that
    --profile names: later commands need no settings. `GatewaySession.from_env()` reads the
    environment only. GATEWAY_TOKEN_STORE says where the token is kept: "file", in a private file of
    this user, if it is not set; "file:" and a folder; "keyring"; or the address of a Redis.

    Args:
        auth_url (URL): Where people log in, in place of GATEWAY_AUTH_URL.
        client_id (ID): As which client, in place of GATEWAY_CLIENT_ID.
        browser (COMMAND): The command that opens the address, such as "chromium --incognito %s": a
            private window keeps the token out of its history. This machine's own browser, if left
            out.
        no_browser: Only show the address, and open nothing.
        paste: For a machine without a browser, as over ssh: show the address, and take the one that
            the browser ends up at, pasted, which is not shown, or from a pipe.
        redirect_uri (URL): Where the answer comes to, as it is registered for the client. Port 0
            takes any that is free, which is the safest.
        scope (NAMES): The scope to ask for, with spaces between its names. The gateway has no
            scopes: leave it out, unless the authorization server demands one.
        timeout (SECONDS): How long the login may take.
    """
    if browser and no_browser:
        raise CommandError("--browser and --no-browser contradict each other", MISUSED)
    if not (paste or can_listen(redirect_uri)):
        raise CommandError(
            "--redirect-uri is not http on this machine: an answer there can only be pasted\n"
            "Add --paste.",
            MISUSED,
        )
    settings = settings_of(ctx, new_profile=True, auth_url=auth_url, client_id=client_id)
    settings.store()  # all that is missing is told before anything else
    values = settings.values
    flow = ImplicitFlow(values["auth_url"], values["client_id"], scope=scope)
    # A person who pastes has the browser elsewhere, and a text browser would take the terminal.
    chosen: Browser = browser or (False if no_browser or paste else None)
    way = {"redirect_uri": redirect_uri, "browser": chosen, "timeout": timeout}
    token = run(_get_and_keep(settings, flow, paste=PasteFromTerminal() if paste else None, **way))
    by_option = set(OPTIONS.values()) & set(settings.sources.values())
    if remembered := bool(ctx.find_root().params["profile"] or by_option):
        save_profile(settings.profile, values)
    _report(settings, token, remembered=remembered)


async def _get_and_keep(settings: Settings, flow: ImplicitFlow, **way: Any) -> Token:
    await try_out_store(settings)
    token = await log_in(flow, **way)
    await settings.store().save(token)
    return token


async def try_out_store(settings: Settings) -> None:
    """Keep and delete a token that is none, so that a broken store is found before the login.

    It is the token of another client: workers do not find it, and a record that is broken, and
    about to be replaced, is not looked at.

    Raises:
        TokenStoreError: the store cannot be used.
    """
    trial = {**settings.values, "client_id": f"{settings.values['client_id']} (trial)"}
    store = replace(settings, values=trial).store()
    await store.save(Token("trial", expires_at=time.time() + TRIAL_LIFE))
    await store.delete()


def _report(settings: Settings, token: Token, *, remembered: bool) -> None:
    console, exports = make_console(), settings.exports()
    console.print("Logged in.", style="bold", end="\n\n")
    pairs = [("Gateway", settings.values["base_url"])]
    pairs += [("Until", describe_end(token, time.time())), ("Kept in", settings.place())]
    pairs += [("Profile", settings.profile)] if remembered else []
    print_key_values(console, pairs)
    shadowed = "access_token" in settings.values
    when = "once GATEWAY_ACCESS_TOKEN is unset" if shadowed else "from now on"
    ending = ":" if exports else "."
    console.print(
        f"\nGatewaySession.from_env() uses it {when}, with the same settings{ending}",
        style="yellow" if shadowed else None,
    )
    for export in exports:
        console.print(f"  export {export}", style="cyan", soft_wrap=True)


def logout(ctx: typer.Context, auth_url: str | None = None, client_id: str | None = None) -> None:
    """Delete the access token that `gateway login` left.

    The authorization server is not told, for the implicit flow has no way to do so: there the
    token stays valid until it expires.

    Args:
        auth_url (URL): Where people log in, in place of GATEWAY_AUTH_URL.
        client_id (ID): As which client, in place of GATEWAY_CLIENT_ID.
    """
    settings = settings_of(ctx, auth_url=auth_url, client_id=client_id)
    store, console = settings.store(), make_console()
    print_key_values(console, [*settings.facts(), ("Kept in", settings.place())])
    console.print(f"\n{run(_delete(store))}")


async def _delete(store: TokenStore) -> str:
    """Delete the token and say what that meant."""
    try:
        token = await store.load()
        told = "There was no access token." if token is None else _deleted(token)
    except TokenStoreError:
        # If it was the store and not what it holds, deleting fails too.
        told = "What was there was no usable record of an access token; it is deleted."
    await store.delete()
    return told


def _deleted(token: Token) -> str:
    if token.expired(time.time(), leeway=0.0):
        return f"The access token is deleted; it had expired at {token.ends}."
    return (
        "The access token is deleted here. The authorization server knows nothing of it: there the"
        f" token stays valid until {token.ends or 'it expires'}, and programs that have read it go"
        " on using it."
    )
