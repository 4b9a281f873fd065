"""A login: open the browser, wait for the authorization response, return the token.

Where the response cannot reach this machine, the user pastes it, for instance into a terminal.
"""

import asyncio
import time
import webbrowser
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import nullcontext, suppress
from typing import Any, Literal, TypeAlias

from gateway_sdk._checks import check_seconds
from gateway_sdk._terminal import default_browser, show_on_stderr
from gateway_sdk._waiting import hiding_frames, in_thread
from gateway_sdk.auth._login.receiver import (
    CANNOT_LISTEN,
    DEFAULT_REDIRECT_URI,
    LoopbackReceiver,
    can_listen,
    timed_out,
)
from gateway_sdk.auth.flow import ImplicitFlow, LoginAttempt
from gateway_sdk.auth.source import DEFAULT_LOGIN_TIMEOUT
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import ConfigurationError, GatewayError, LoginError, StateMismatchError

Browser: TypeAlias = str | Callable[[str], bool] | Literal[False] | None
"""What opens a URL on this machine: None for its own browser with windows, a command with `%s` in
place of the URL (`"chromium --incognito %s"`), a function that returns whether it opened it (its
LoginError ends the login), or False to open nothing. The URL is one of this machine that leads on
to the authorization URL and can be opened once, except where the response can only be pasted: there
it is the authorization URL."""

Paste: TypeAlias = Callable[[], Awaitable[str]]
"""Returns a URL that the user pasted; raises EOFError if there will be none."""


@hiding_frames(GatewayError)
async def login(
    flow: ImplicitFlow,
    *,
    redirect_uri: str = DEFAULT_REDIRECT_URI,
    browser: Browser = None,
    show: Callable[[str], object] = show_on_stderr,
    paste: Paste | None = None,
    timeout: float | None = DEFAULT_LOGIN_TIMEOUT,  # noqa: ASYNC109 - its error says more
) -> Token:
    """Let the user log in with a browser, and return the token.

    Args:
        flow: The authorization server and the client.
        redirect_uri: Where the response goes, as registered; see `LoopbackReceiver`. If it is not
            http on this machine, the response must be pasted.
        browser: What opens the address of the login. A private window, as by "firefox
            --private-window %s", leaves no token in the browser's history.
        show: Called with each line for the user, such as the address of the login, which others
            must not read.
        paste: For a machine without a browser, such as `PasteFromTerminal()`.
        timeout: Seconds for the whole login; None for no limit.

    Raises:
        ConfigurationError: redirect_uri is not http on this machine, and paste is None.
        ReceiverUnavailableError: the port of redirect_uri is in use.
        AuthorizationDeniedError: the user or the authorization server refused.
        MalformedResponseError: the response violates RFC 6749.
        LoginTimeoutError: the login was not finished in time.
        LoginError: the address of the login was opened twice, or nothing was pasted.
    """
    check_seconds("timeout", timeout)
    listens = can_listen(redirect_uri)
    if not listens and paste is None:
        raise ConfigurationError(f"{CANNOT_LISTEN}: pass paste=")
    async with LoopbackReceiver(redirect_uri) if listens else nullcontext() as receiver:
        attempt = flow.start(receiver.redirect_uri if receiver else redirect_uri)
        opened = here = attempt.url
        if receiver:
            # Other users can read the arguments of a browser's command.
            opened, here = receiver.start_url(attempt.url), receiver.start_url(attempt.url)
        elsewhere = f"{here} or, on another machine, at " if receiver and paste else ""
        opens = default_browser() if browser is None else browser
        by_hand = ", if no browser opens by itself:" if opens else ":"
        show(f"Log in at {elsewhere}this address{by_hand}")
        show(attempt.url if paste else here)
        if paste:
            show("Then paste the whole address of the page that you are sent to, and press Enter.")

        def finish(fragment: str, query: str) -> Token:
            return flow.finish(attempt, fragment=fragment, query=query, now=time.time())

        def tell(reason: str) -> None:
            show(f"Not accepted: {reason}.")

        coroutines = [receiver.receive(finish, timeout=timeout, tell=tell)] if receiver else []
        if paste:
            coroutines.append(_read_pasted(flow, attempt, paste, show))
        if browser is None and not (opens or paste):
            show("No browser with windows was found here.")
        coroutines.append(_open_browser(opened, opens, show, receiver))
        # The receiver ends in time by itself: its error says what it refused.
        token = await _first_token(coroutines, None if receiver else timeout)
        if token is None:
            raise timed_out(timeout, redirect_uri)
        return token


async def _first_token(
    coroutines: Iterable[Coroutine[Any, Any, Token]], seconds: float | None
) -> Token | None:
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        first = min(done, key=lambda task: task.exception() is not None, default=None)
        return first.result() if first else None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _open_browser(
    url: str, browser: Browser, show: Callable[[str], object], receiver: LoopbackReceiver | None
) -> Any:
    """Wait for ever, unless no browser opens that has to: a LoginError ends the login."""

    def opens() -> bool:
        try:
            start: Any = webbrowser.get(browser).open if isinstance(browser, str) else browser
            return bool(start(url))
        except LoginError:
            if receiver and receiver.is_visited:  # it failed when it ended
                return True
            raise
        except Exception:  # noqa: BLE001 - of the caller's function; the user is told what to do
            return False

    with suppress(OSError):  # what it shows, nobody can see
        # In a thread: many commands end when the user closes the browser.
        if browser and not await in_thread("gateway_sdk-login", opens):
            show("No browser could be opened here.")
    return await asyncio.get_running_loop().create_future()


async def _read_pasted(
    flow: ImplicitFlow, attempt: LoginAttempt, paste: Paste, show: Callable[[str], object]
) -> Token:
    while True:
        await asyncio.sleep(0)  # a paste function that never waits must not block the loop
        try:
            return flow.finish_url(attempt, await paste(), now=time.time())
        except StateMismatchError as error:
            show(f"Not this one: {error}. Paste the whole address, up to its end.")
        except (EOFError, ConfigurationError) as error:  # the browser is open: it is held
            raise LoginError(str(error) or "nothing was pasted") from None
