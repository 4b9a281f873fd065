"""The commands for the access token: `gateway login`, `status` and `logout`."""

import asyncio
import os
import re
import shlex
import time
import webbrowser
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final, TypeVar

import typer

from gateway_sdk import auth
from gateway_sdk._terminal import default_browser, open_url
from gateway_sdk._url import origin_of_text
from gateway_sdk.auth import ImplicitFlow, Token
from gateway_sdk.auth._login.login import can_listen
from gateway_sdk.auth._login.server import KEPT_SECONDS, kept_ports, wait_for_kept_ports
from gateway_sdk.cli import output
from gateway_sdk.cli.arguments import option, switch
from gateway_sdk.cli.process import CommandError, Status, printable, say
from gateway_sdk.cli.session import OPTION_OF, ask, settings_of_command, source_of
from gateway_sdk.errors import GatewayError, LoginError, TokenStoreError
from gateway_sdk.session import ENVIRONMENT, token_store, with_access_token

app = typer.Typer(rich_markup_mode=None)

T = TypeVar("T")

SHOWN: Final = {
    "base_url": "Gateway",
    "tenant_id": "Tenant",
    "auth_url": "Login at",
    "client_id": "Client",
}
ADVICE: Final = "Get one with `gateway login`."
ACCEPTED: Final = "Whether the gateway accepts the token, `gateway countries` shows."
CLOSE_THE_TAB: Final = (
    "Close its tab in the browser now. Until you press Ctrl-C, but for "
    f"{KEPT_SECONDS / 60:.0f} minutes at most, this command keeps the port of the login, so "
    "that no other program gets a token that comes late."
)
ELSEWHERE: Final = "No browser is opened here: log in with one on any machine"
TRIAL_LIFE: Final = 60.0  # seconds until the test token expires, if it cannot be deleted
STORE_TIMEOUT: Final = 60.0  # seconds, in which a keyring may ask the user for its password


@app.command()
def login(
    *,
    browser: Annotated[
        str | None,
        option("COMMAND", 'The browser; "chromium --incognito %s" keeps no history of the token.'),
    ] = None,
    no_browser: Annotated[bool, switch("--no-browser", "Only show the address.")] = False,
    paste: Annotated[
        bool, switch("--paste", "Paste (unseen) the address that any browser ends at.")
    ] = False,
    redirect_uri: Annotated[
        str, option("URL", "The client's redirect URI. Port 0, the safest, takes a free one.")
    ] = "http://127.0.0.1:0/callback",
    scope: Annotated[str, option("NAMES", "The scope, if one is required.")] = "",
    timeout: Annotated[float, option("SECONDS", "How long the login may take.", min=0.1)] = 300,
) -> None:
    """Log in with a browser, and store the access token for programs.

    It needs --base-url, --auth-url and --client-id, or GATEWAY_BASE_URL, GATEWAY_AUTH_URL and
    GATEWAY_CLIENT_ID; by the same three, programs and later commands find the token.
    GATEWAY_TOKEN_STORE says where it is stored: file (the default), file:FOLDER, keyring, or the
    URL of a Redis.
    """
    if browser and no_browser:
        raise CommandError("give either --browser or --no-browser")
    values = settings_of_command()
    missing = [name for name in ("base_url", "auth_url", "client_id") if name not in values]
    if missing[1:]:  # of a single one, the SDK says what it is
        unset = ", ".join(f"{ENVIRONMENT[it]} ({OPTION_OF[it]})" for it in missing)
        raise CommandError(f"these are not set: {unset}")
    token_store(values)  # names a missing setting before anything else is checked
    if not (paste or can_listen(redirect_uri)):
        raise CommandError("--redirect-uri is not http on this machine\nAdd --paste.")
    # With --paste the browser is elsewhere.
    chosen: auth.Browser = False if no_browser or paste else None
    if browser:
        chosen = partial(open_named, browser)
    if chosen is None and has_no_browser():
        paste, chosen = os.isatty(0), False
        say(f"{ELSEWHERE}." if paste else f"{ELSEWHERE}: in a terminal, with --paste.")
    way = {"redirect_uri": redirect_uri, "browser": chosen, "timeout": timeout}
    pasted = auth.PasteFromTerminal() if paste else None
    flow = ImplicitFlow(values["auth_url"], values["client_id"], scope=scope)
    try:
        token = asyncio.run(_get_and_keep(values, flow, paste=pasted, **way))
    except (GatewayError, KeyboardInterrupt) as error:
        # A browser elsewhere has its own ports; without a terminal nobody can close a tab.
        if kept_ports and not paste and os.isatty(2):
            with suppress(KeyboardInterrupt):
                say(f"The login has ended{f': {error}' if str(error) else ''}.\n{CLOSE_THE_TAB}")
                wait_for_kept_ports()
        raise
    _report(values, token, scope)


def open_named(browser: str, url: str) -> bool:
    if open_url(browser, url):
        return True
    raise LoginError(f"the browser could not be opened: {browser}")


def has_no_browser() -> bool:
    """Tell whether none is here that a user would see; over ssh only BROWSER can name one."""
    is_remote = "SSH_CONNECTION" in os.environ and not os.environ.get("BROWSER")
    if is_remote or default_browser() is None:
        return True
    try:
        webbrowser.get()
    except webbrowser.Error:
        return os.isatty(0)  # without a terminal, the login says it
    return False


async def _get_and_keep(values: dict[str, str], flow: ImplicitFlow, **way: Any) -> Token:
    # Store and delete a test token, so that a broken store is found before the login. With another
    # client id programs do not find it, and the real record, which may be broken and is about to be
    # replaced, is not read.
    store = token_store({**values, "client_id": f"{values['client_id']} (trial)"})
    await _in_time(store.save(Token("trial", expires_at=time.time() + TRIAL_LIFE)))
    await _in_time(store.delete())
    token = await auth.login(flow, **way)
    await _in_time(token_store(values).save(token))
    return token


async def _in_time(work: Coroutine[Any, Any, T]) -> T:
    try:
        async with asyncio.timeout(STORE_TIMEOUT):
            return await work
    except TimeoutError:
        told = f"the token store has not answered for {STORE_TIMEOUT:g} s"
        raise TokenStoreError(told) from None


def _report(values: dict[str, str], token: Token, asked: str) -> None:
    console, lines = output.make_console(), for_a_shell(values)
    console.print("Logged in.", style="bold", end="\n\n")
    end = end_and_scope(token, asked)
    output.print_key_values(("Gateway", values["base_url"]), *end, ("Kept in", place_of(values)))
    use = "To use it in programs and commands, run in their shell:"
    console.print("\n" + (use if lines else "Programs and commands use it from now on."))
    for line in lines:
        console.print(f"  {line}", soft_wrap=True)


def for_a_shell(values: dict[str, str]) -> list[str]:
    """Write what lets programs and later commands use the login with these settings."""
    given = {ENVIRONMENT[name]: values[name] for name in ("base_url", "auth_url", "client_id")}
    lacking = {name: text for name, text in given.items() if os.environ.get(name) != text}
    # A token of the environment would be used in place of the login's.
    unset = ["unset GATEWAY_ACCESS_TOKEN"] if "access_token" in values else []
    return [*unset, *(f"export {name}={shlex.quote(text)}" for name, text in lacking.items())]


def place_of(values: dict[str, str]) -> str:
    """Say where the token is stored, without credentials."""
    store = token_store(values)
    if isinstance(store, auth.PrivateFileStore):
        return str(store.path)
    return re.sub(r"(?<=//)[^?]*@|\?.*", "", values["token_store"])


def facts_of(values: dict[str, str]) -> Iterator[output.KeyValue]:
    for name, key in SHOWN.items():
        if text := values.get(name):
            # An invalid URL may have a password before its last @.
            if name.endswith("_url") and "@" in text and not origin_of_text(text):
                text = f"…{text[text.rindex('@') :]}"
            yield key, f"{printable(text)} ({source_of(name)})"


@app.command()
def status(
    *,
    try_out: Annotated[bool, switch("--try", "Also open a connection, without a request.")] = False,
) -> None:
    """Show the settings in force, where each comes from, and how long the access token is valid.

    The exit status is 0 if there is an access token that has not expired, else 1. Whether the
    gateway accepts it, only a call shows, such as `gateway countries`. The token is never shown.
    """
    values = settings_of_command()
    output.print_key_values(*facts_of(values))  # also if others are missing
    if secret := values.get("access_token"):
        output.print_key_values(("Token", f"{len(secret)} characters (GATEWAY_ACCESS_TOKEN)"))
    else:
        with_access_token(values)  # names what is missing, in the order in which it is needed
        output.print_key_values(("Kept in", place_of(values)))
        token = asyncio.run(_in_time(token_store(values).load()))
        if token is None:
            raise CommandError(f"there is no access token\n{ADVICE}", Status.FAILED)
        since = output.describe_moment(token.obtained_at, time.time())
        output.print_key_values(("Since", since), *end_and_scope(token))
        if token.expired(time.time()):
            problem = "the access token has expired, or is about to"
            raise CommandError(f"{problem}\n{ADVICE}", Status.FAILED)
    if try_out:
        ask(lambda gateway: gateway.connect())
        output.print_key_values(
            ("Tried", "a connection opens; no request was sent"), ("", ACCEPTED)
        )


def end_and_scope(token: Token, asked: str = "") -> Iterator[output.KeyValue]:
    """Say until when a token lasts, its scope, and what of the scope asked for is not in it."""
    if token.expires_at is None:
        yield "Until", "the gateway refuses it: the login did not say when it expires"
    else:
        yield "Until", output.describe_moment(token.expires_at, time.time())
    missing = sorted({*asked.split()} - token.scope)
    if token.scope or missing:
        granted = " ".join(sorted(token.scope)) or "none"
        yield "Scope", granted + (f" (not granted: {' '.join(missing)})" if missing else "")


@app.command()
def logout() -> None:
    """Delete the access token that `gateway login` stored.

    The token stays valid until it expires: the implicit flow has no way to revoke it.
    """
    values = settings_of_command()
    output.print_key_values(*facts_of(values), ("Kept in", place_of(values)))
    asyncio.run(_in_time(token_store(values).delete()))  # also a damaged record
    gone = "No access token is stored here any more."
    output.make_console().print(f"\n{gone} A program that has it can use it until it expires.")
    if "access_token" in values:
        say("Commands use GATEWAY_ACCESS_TOKEN as before: unset it, too.")
