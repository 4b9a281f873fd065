"""A login: the receiver of the response to it, the browser, and pasting in place of both.

The receiver listens on this machine. Where the response cannot reach it, the user pastes it, for
instance into a terminal.
"""

import asyncio
import re
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import nullcontext, suppress
from typing import Any, Final, Literal, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

import httpx

from gateway_sdk._checks import check_seconds, promised
from gateway_sdk._terminal import default_browser, open_url, show_on_stderr
from gateway_sdk._url import is_loopback, parse_url
from gateway_sdk._waiting import hiding_frames, in_thread
from gateway_sdk.auth._login.handler import CallbackHandler
from gateway_sdk.auth._login.server import (
    CallbackServer,
    close_all,
    copy_all,
    keep_port,
    listen,
    take_port,
)
from gateway_sdk.auth.flow import ImplicitFlow, LoginAttempt
from gateway_sdk.auth.source import DEFAULT_LOGIN_TIMEOUT
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import (
    ConfigurationError,
    GatewayError,
    LoginError,
    LoginTimeoutError,
    StateMismatchError,
    misused,
)

T = TypeVar("T")

DEFAULT_REDIRECT_URI: Final = "http://127.0.0.1:0/callback"
# What no browser rewrites, such as "..", and what ends no cookie's path; no // at the start, which
# the page's request would take for a host.
_PLAIN_PATH: Final = re.compile(r"(?:/(?!\.\.?(?:/|$))[\w.~:@+-]+)*/?", re.ASCII)


class LoopbackReceiver:
    """Listens for the response to one login, while it is open.

    async with LoopbackReceiver() as receiver:
        attempt = flow.start(receiver.redirect_uri)
        open_browser(receiver.start_url(attempt.url))
        token = await receiver.receive(partial_finish)

    Attributes:
        redirect_uri: The redirect URI; with its actual port when the receiver is open.
    """

    def __init__(
        self, redirect_uri: str = DEFAULT_REDIRECT_URI, *, bind: str | None = None
    ) -> None:
        """Check the arguments; nothing is opened.

        Args:
            redirect_uri: http on this machine; port 0 takes a free one, which authorization servers
                must accept for 127.0.0.1 and ::1 (RFC 8252, 7.3). A login deletes what other pages
                at its port have stored in the browser: it could take the response.
            bind: The IP address to listen at instead, such as 0.0.0.0 in a container whose port is
                forwarded. Every program that can reach it can send responses.

        Raises:
            ConfigurationError: redirect_uri is not http on this machine, or its path is refused.
        """
        if not can_listen(redirect_uri):
            raise ConfigurationError(
                "redirect_uri is not http on this machine, such as http://127.0.0.1:0/callback: "
                "pass paste= to login(), because a response sent there can only be pasted"
            )
        url = httpx.URL(redirect_uri)
        # IPv6 has one such address, and browsers write it in one way.
        self._url = url.copy_with(host="::1") if ":" in url.host else url
        self.redirect_uri = redirect_uri  # unchanged, as it is registered
        self._bind = bind
        self._sockets: list[socket.socket] = []

    async def __aenter__(self) -> Self:
        """Listen; ReceiverUnavailableError if the address is in use or not available."""
        # An earlier login at a fixed port may have kept it: then no other program can come between.
        self._sockets = take_port(self._place) or listen(self._url, self._bind)
        if self._url.port == 0:
            port = self._sockets[0].getsockname()[1]
            self._url = self._url.copy_with(port=port)
            self.redirect_uri = str(self._url)
        self._handler = CallbackHandler(self._url)
        return self

    async def __aexit__(self, *_: object) -> None:
        close_all(self._sockets)
        self._sockets = []

    def start_url(self, authorization_url: str) -> str:
        """Return a URL for one browser, which leads on to the authorization URL exactly once.

        Only a browser that opened such a URL can end the login; a second opening ends it with an
        error. Call this again for each further way to a browser.
        """
        self._must_be_open()
        return self._handler.make_start_url(authorization_url)

    @hiding_frames(GatewayError)
    async def receive(
        self,
        finish: Callable[[str, str], T],
        *,
        timeout: float | None = DEFAULT_LOGIN_TIMEOUT,  # noqa: ASYNC109 - its error says what happened
        tell: Callable[[str], object] | None = None,
    ) -> T:
        """Wait for the response to this login, and return the result of `finish`.

        Args:
            finish: Reads a response's fragment and query. If it raises StateMismatchError, the
                response is refused and the wait continues; any other result ends the wait.
            timeout: Seconds; None for no limit.
            tell: Called with the reason, and the way out, when a browser or a response is refused;
                the error of a time-out has the last one.

        Raises:
            LoginTimeoutError: the login was not finished in time.
            LoginError: as `finish` raises it, or a start URL was opened twice.
            SessionStateError: the receiver is not open, or no start URL was made.
        """
        check_seconds("timeout", timeout)
        self._must_be_open()
        if not self._handler.starts:
            raise misused("no browser can end this login: call start_url() first")
        handler = self._handler
        handler.finish, handler.tell = finish, tell or handler.tell
        sockets, self._sockets = self._sockets, []
        loop = asyncio.get_running_loop()
        kept = copy_all(sockets)
        try:
            async with asyncio.timeout(timeout):
                await CallbackServer(handler).run(sockets)
        except TimeoutError:
            if not handler.result.done():  # otherwise the response came at the last moment
                raise _timed_out(timeout, self.redirect_uri, handler) from None
        finally:
            # Garbage of a loop that was left behind must not wait for the thread: perhaps that
            # collects it, or Python ends. Its sockets are garbage too.
            # Without a visit no tab of the login is open, and no response can come late.
            if handler.has_response or not handler.is_visited or not loop.is_running():
                close_all(kept)
            else:
                keep_port(self._place, kept, handler)
        result: T = handler.result.result()
        return result

    @property
    def is_visited(self) -> bool:
        """Whether a browser has opened one of the start URLs."""
        return self._handler.is_visited

    @property
    def _place(self) -> object:
        return self._url.host, self._url.port, self._bind

    def _must_be_open(self) -> None:
        if not self._sockets:
            raise misused("the receiver is not open: use it in `async with`, once")


def _timed_out(
    seconds: float | None, redirect_uri: str, handler: CallbackHandler | None = None
) -> LoginTimeoutError:
    """Return the error for a login that was not finished in time."""
    reason = (handler and handler.reason) or (
        "no response came. If the authorization server showed an error, the redirect URI "
        f"{redirect_uri} may not be registered there for this client"
    )
    error = LoginTimeoutError(f"the login was not finished within {seconds:g} s: {reason}")
    error.refused = handler.refused if handler else 0
    return error


def can_listen(redirect_uri: str) -> bool:
    url = parse_url("redirect_uri", redirect_uri, any_port=True)
    is_here = url.scheme == "http" and is_loopback(url.host)
    if is_here and not _PLAIN_PATH.fullmatch(urlsplit(redirect_uri).path):
        raise ConfigurationError(
            "has a path that browsers may change: it must be as plain as /login/callback",
            setting="redirect_uri",
        )
    return is_here


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
    if not isinstance(flow, ImplicitFlow):
        raise ConfigurationError("must be an ImplicitFlow", setting="flow")
    listens = paste is None or can_listen(redirect_uri)
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
            raise _timed_out(timeout, redirect_uri)
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
            return open_url(browser, url)
        except LoginError:
            if receiver and receiver.is_visited:  # it failed when it ended
                return True
            raise

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
            return flow.finish_url(attempt, await promised("paste", paste), now=time.time())
        except StateMismatchError as error:
            show(f"Not this one: {error}. Paste the whole address, up to its end.")
        except (EOFError, ConfigurationError) as error:  # the browser is open: it is held
            raise LoginError(str(error) or "nothing was pasted") from None
