"""A login, from the browser that is opened to the token that comes back."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeAlias

from gateway_sdk._config import check_seconds
from gateway_sdk.auth.browser import Browser, open_browser
from gateway_sdk.auth.flow import ImplicitFlow, LoginAttempt
from gateway_sdk.auth.loopback import LoopbackReceiver
from gateway_sdk.auth.loopback.address import CANNOT_LISTEN, can_listen
from gateway_sdk.auth.loopback.receiver import (
    DEFAULT_LOGIN_TIMEOUT,
    DEFAULT_REDIRECT_URI,
    timed_out,
)
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import ConfigurationError, LoginError, StateMismatchError

Paste: TypeAlias = Callable[[], Awaitable[str]]
"""Returns an address that a person pasted; EOFError if there will be none."""


def show_on_stderr(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


async def login(
    flow: ImplicitFlow,
    *,
    redirect_uri: str = DEFAULT_REDIRECT_URI,
    browser: Browser = None,
    show: Callable[[str], object] = show_on_stderr,
    paste: Paste | None = None,
    timeout: float | None = DEFAULT_LOGIN_TIMEOUT,  # noqa: ASYNC109 - its error says more
    clock: Callable[[], float] = time.time,
) -> Token:
    """Let a person log in with a browser, and return the token.

    Args:
        flow: Where to log in, and as which client.
        redirect_uri: Where the answer goes, as it is registered. Port 0 takes a free one. What is
            not http on this machine can only be pasted.
        browser: What opens the address: None for this machine's browser, a command with `%s`
            such as "firefox --private-window %s", a function, or False for nothing. A private
            window leaves no token in the browser's history.
        show: Takes what the person should read: the address, in case no browser opens.
        paste: Where the address of the answer can be pasted, for a machine without a browser;
            `PasteFromTerminal()`, for instance.
        timeout: Seconds for all of it; None for no limit.
        clock: Gives the time in seconds since 1970.

    Raises:
        ConfigurationError: redirect_uri cannot be listened at, and nothing can be pasted.
        ReceiverUnavailableError: redirect_uri's port is taken.
        AuthorizationDeniedError: the person or the authorization server said no.
        MalformedResponseError: the answer breaks RFC 6749.
        LoginTimeoutError: nobody finished the login in time.
    """
    check_seconds("timeout", timeout)
    if not can_listen(redirect_uri):
        if paste is None:
            raise ConfigurationError(f"{CANNOT_LISTEN}, so give paste=")
        attempt = flow.start(redirect_uri)
        _announce(attempt.url, browser, show, pastes=True)
        pasted = _pasted(flow, attempt, paste, show, clock)
        return await _guided(attempt.url, browser, show, [_in_time(pasted, timeout)])

    async with LoopbackReceiver(redirect_uri) as receiver:
        attempt = flow.start(receiver.redirect_uri)
        _announce(attempt.url, browser, show, pastes=paste is not None)

        def finish(fragment: str, query: str) -> Token:
            return flow.finish(attempt, fragment=fragment, query=query, now=clock())

        ways = [receiver.receive(finish, timeout=timeout)]
        if paste is not None:
            ways.append(_pasted(flow, attempt, paste, show, clock))
        return await _guided(attempt.url, browser, show, ways)


def _announce(url: str, browser: Browser, show: Callable[[str], object], *, pastes: bool) -> None:
    how = ":" if browser is False else ", if no browser opens by itself:"
    show(f"Log in at this address{how}")
    show(url)
    if pastes:
        show("Then paste the whole address of the page that you are sent to, and press Enter.")


async def _guided(
    url: str,
    browser: Browser,
    show: Callable[[str], object],
    ways: Iterable[Coroutine[Any, Any, Token]],
) -> Token:
    """Open the address, and return the token that comes first, on whichever way."""
    tasks = [asyncio.create_task(way) for way in ways]
    opening = asyncio.create_task(_open(url, browser, show))
    started: list[asyncio.Task[Any]] = [*tasks, opening]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return min(done, key=lambda task: task.exception() is not None).result()
    finally:
        for task in started:
            task.cancel()
        await asyncio.gather(*started, return_exceptions=True)


async def _open(url: str, browser: Browser, show: Callable[[str], object]) -> None:
    if browser is not False and not await open_browser(url, browser):
        show("No browser could be opened here.")


async def _pasted(
    flow: ImplicitFlow,
    attempt: LoginAttempt,
    paste: Paste,
    show: Callable[[str], object],
    clock: Callable[[], float],
) -> Token:
    """Take pasted addresses until one of them belongs to this login."""
    while True:
        await asyncio.sleep(0)  # what is pasted without waiting must not keep out all others
        try:
            return flow.finish_url(attempt, await paste(), now=clock())
        except StateMismatchError as error:
            show(f"That is not it: {error}. Paste the whole address, up to its end.")
        except EOFError:
            raise LoginError("nothing was pasted") from None


async def _in_time(way: Coroutine[Any, Any, Token], timeout: float | None) -> Token:  # noqa: ASYNC109
    scope = asyncio.timeout(timeout)
    try:
        async with scope:
            return await way
    except TimeoutError:
        if not scope.expired():
            raise
        raise timed_out(timeout) from None
