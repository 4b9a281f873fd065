"""Logging in at the command line, from the check of the settings to the token in its store."""

import time
from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console

from gateway_sdk.auth import Browser, ImplicitFlow, PasteFromTerminal, Token, login
from gateway_sdk.auth._receiver import can_listen
from gateway_sdk.cli.console import make_console
from gateway_sdk.cli.facts import Fact, print_facts
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.cli.run import run
from gateway_sdk.cli.settings import LoginSettings
from gateway_sdk.cli.times import describe_end

TRIAL_LIFE = 60.0
"""Seconds that a token for trial lasts, should nobody be left to delete it."""


def log_in(
    settings: LoginSettings,
    *,
    browser: str | None,
    no_browser: bool,
    paste: bool,
    redirect_uri: str,
    timeout: float,
) -> None:
    """Let the person log in, keep the token, and say so; the token itself is never shown.

    Raises:
        CommandError: the options do not go together.
        GatewayError: a setting is wrong, the store cannot be used, or the login failed.
    """
    if browser and no_browser:
        raise CommandError("--browser and --no-browser contradict each other", MISUSED)
    if not (paste or can_listen(redirect_uri)):
        raise CommandError(
            "--redirect-uri is not http on this machine: an answer there can only be pasted\n"
            "Add --paste.",
            MISUSED,
        )
    flow = ImplicitFlow(settings.auth_url, settings.client_id)
    # Whoever pastes has their browser elsewhere, and a text browser would take the terminal.
    chosen: Browser = browser or (False if no_browser or paste else None)

    async def get_and_keep() -> Token:
        await try_out_store(settings)
        token = await login(
            flow,
            redirect_uri=redirect_uri,
            browser=chosen,
            paste=PasteFromTerminal() if paste else None,
            timeout=timeout,
        )
        await settings.store().save(token)
        return token

    _report(make_console(), settings, run(get_and_keep()))


async def try_out_store(settings: LoginSettings) -> None:
    """Keep and delete a token that is none, so that a broken store costs nobody a login.

    It is the token of another client: workers do not find it, and a record that is broken, and
    about to be replaced, is not looked at.

    Raises:
        TokenStoreError: the store cannot be used.
    """
    store = replace(settings, client_id=f"{settings.client_id} (trial)").store()
    await store.save(Token("trial", expires_at=time.time() + TRIAL_LIFE))
    await store.delete()


def _report(console: Console, settings: LoginSettings, token: Token) -> None:
    console.print("Logged in.", style="bold", end="\n\n")
    print_facts(console, _facts(settings, token))
    when = "once GATEWAY_ACCESS_TOKEN is unset" if settings.has_access_token else "from now on"
    ending = ":" if settings.exports else "."
    console.print(
        f"\nGatewaySession.from_env() uses it {when}, with the same settings{ending}",
        style="yellow" if settings.has_access_token else None,
    )
    for export in settings.exports:
        console.print(f"  export {export}", style="cyan", soft_wrap=True)


def _facts(settings: LoginSettings, token: Token) -> Iterator[Fact]:
    yield "Gateway", settings.base_url
    yield "Until", describe_end(token, time.time())
    yield "Kept in", settings.place()
