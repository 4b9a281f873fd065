"""A login: open the browser, wait for the authorization response, return the token.

Where the response cannot reach this machine, the user pastes it, for instance into a terminal.
"""

import asyncio
import os
import sys
import threading
import time
import webbrowser
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, Final, Literal, TypeAlias

from gateway_sdk._checks import check_seconds
from gateway_sdk.auth._receiver import (
    CANNOT_LISTEN,
    DEFAULT_LOGIN_TIMEOUT,
    DEFAULT_REDIRECT_URI,
    LoopbackReceiver,
    can_listen,
    timed_out,
)
from gateway_sdk.auth.flow import ImplicitFlow, LoginAttempt
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import ConfigurationError, LoginError, StateMismatchError

Browser: TypeAlias = str | Callable[[str], bool] | Literal[False] | None
"""What opens a URL on this machine: None for its own browser, a command with `%s` in place of the
URL (`"chromium --incognito %s"`), a function that returns whether it opened it, or False to open
nothing. The URL is one of this machine that leads on to the authorization URL and can be opened
once, except where the response can only be pasted: there it is the authorization URL."""

Paste: TypeAlias = Callable[[], Awaitable[str]]
"""Returns a URL that the user pasted; raises EOFError if there will be none."""


def show_on_stderr(text: str) -> None:
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
    """Let the user log in with a browser, and return the token.

    Args:
        flow: The authorization server and the client.
        redirect_uri: Where the response goes, as registered; see `LoopbackReceiver`. If it is not
            http on this machine, the response must be pasted.
        browser: What opens the address of the login. A private window, as by "firefox
            --private-window %s", leaves no token in the browser's history.
        show: Called with each line that the user should read, such as the address, in case no
            browser opens. It starts the login: others must not read it.
        paste: Returns the URL of the response as the user pasted it, for a machine without a
            browser; for instance `PasteFromTerminal()`.
        timeout: Seconds for the whole login; None for no limit.
        clock: Returns seconds since 1970.

    Raises:
        ConfigurationError: redirect_uri is not http on this machine, and paste is None.
        ReceiverUnavailableError: the port of redirect_uri is in use.
        AuthorizationDeniedError: the user or the authorization server refused.
        MalformedResponseError: the response violates RFC 6749.
        LoginTimeoutError: the login was not finished in time.
        LoginError: the address of the login was opened twice, or nothing was pasted.
    """
    check_seconds("timeout", timeout)
    if not can_listen(redirect_uri):
        if paste is None:
            raise ConfigurationError(f"{CANNOT_LISTEN}: pass paste=")
        attempt = flow.start(redirect_uri)
        _announce(attempt.url, browser, show)
        show(_PASTE)
        pasted = _read_pasted(flow, attempt, paste, show, clock)
        waiting = _within(pasted, timeout, redirect_uri)
        return await _first_token(attempt.url, browser, show, [waiting])

    async with LoopbackReceiver(redirect_uri) as receiver:
        attempt = flow.start(receiver.redirect_uri)
        # Not the authorization URL: other users can read the arguments of a browser's command.
        opened, shown = receiver.start_url(attempt.url), receiver.start_url(attempt.url)
        if paste is None:
            _announce(shown, browser, show)
        else:
            _announce(attempt.url, browser, show, here=shown)
            show(_PASTE)

        def finish(fragment: str, query: str) -> Token:
            return flow.finish(attempt, fragment=fragment, query=query, now=clock())

        coroutines = [receiver.receive(finish, timeout=timeout)]
        if paste is not None:
            coroutines.append(_read_pasted(flow, attempt, paste, show, clock))
        return await _first_token(opened, browser, show, coroutines)


_PASTE: Final = "Then paste the whole address of the page that you are sent to, and press Enter."


def _announce(url: str, browser: Browser, show: Callable[[str], object], *, here: str = "") -> None:
    """Show where to log in: at *here* with a browser of this machine, if it is another address."""
    elsewhere = f"Log in at {here} or, on another machine, at" if here else "Log in at"
    show(f"{elsewhere} this address{':' if browser is False else _IF_NONE_OPENS}")
    show(url)


_IF_NONE_OPENS: Final = ", if no browser opens by itself:"


async def _first_token(
    url: str,
    browser: Browser,
    show: Callable[[str], object],
    coroutines: Iterable[Coroutine[Any, Any, Token]],
) -> Token:
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    opening = asyncio.create_task(_open_browser(url, browser, show))
    started: list[asyncio.Task[Any]] = [*tasks, opening]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return min(done, key=lambda task: task.exception() is not None).result()
    finally:
        for task in started:
            task.cancel()
        await asyncio.gather(*started, return_exceptions=True)


async def _open_browser(url: str, browser: Browser, show: Callable[[str], object]) -> None:
    if browser is not False and not await _open_in_thread(url, browser):
        show("No browser could be opened here.")


async def _read_pasted(
    flow: ImplicitFlow,
    attempt: LoginAttempt,
    paste: Paste,
    show: Callable[[str], object],
    clock: Callable[[], float],
) -> Token:
    while True:
        await asyncio.sleep(0)  # a paste function that never waits must not block the loop
        try:
            return flow.finish_url(attempt, await paste(), now=clock())
        except StateMismatchError as error:
            show(f"Not this one: {error}. Paste the whole address, up to its end.")
        except EOFError:
            raise LoginError("nothing was pasted") from None


async def _within(
    coroutine: Coroutine[Any, Any, Token],
    timeout: float | None,  # noqa: ASYNC109
    redirect_uri: str,
) -> Token:
    scope = asyncio.timeout(timeout)
    try:
        async with scope:
            return await coroutine
    except TimeoutError:
        if not scope.expired():
            raise
        raise timed_out(timeout, redirect_uri) from None


async def _open_in_thread(url: str, browser: str | Callable[[str], bool] | None) -> bool:
    # A thread of its own: a text browser blocks until the user closes it, and a process waits at
    # its end for threads of the default executor.
    loop, opened = asyncio.get_running_loop(), asyncio.Queue[bool]()

    def run() -> None:
        is_open = False
        with suppress(Exception):  # of the caller's function; the user is told what to do
            is_open = _open_url(url, browser)
        with suppress(RuntimeError):  # the loop is closed, and nothing waits
            loop.call_soon_threadsafe(opened.put_nowait, is_open)

    threading.Thread(target=run, name="gateway_sdk-browser", daemon=True).start()
    return await opened.get()


def _open_url(url: str, browser: str | Callable[[str], bool] | None) -> bool:
    if callable(browser):
        return bool(browser(url))
    if browser is None:
        return webbrowser.open(url)  # the first one that works
    return webbrowser.get(browser).open(url)


_LONGEST: Final = 128 * 1024
"""Bytes: twice the longest response that is read, so that one cut here is refused there."""

_ENTER: Final = frozenset(b"\r\n")
_ERASE: Final = frozenset(b"\b\x7f")
_ERASE_ALL: Final = 0x15
_END: Final = 0x04
# Ctrl-D ends a line; on an empty line it ends the input.
_ENDS: Final = _ENTER | {_END}


class PasteFromTerminal:
    """Returns one line of standard input per call; a terminal does not show it.

    The terminal's line mode is not used: it silently cuts a line at 4096 characters (macOS: 1024),
    and a token may be longer.
    """

    def __init__(self) -> None:
        """Raise ConfigurationError on a system without POSIX terminals, as Windows."""
        if find_spec("termios") is None:
            raise ConfigurationError("pasting needs a POSIX terminal: log in with a browser")
        self._read = bytearray()

    async def __call__(self) -> str:
        """Return a line.

        Raises:
            EOFError: the input ended.
            ConfigurationError: the input is neither a terminal nor a pipe nor a file.
        """
        descriptor = _standard_input()
        line = bytearray()
        with _without_echo(descriptor):
            while (byte := await self._next(descriptor)) not in _ENDS or not line:
                # Empty lines are skipped: pasting adds some, and so does "\r\n".
                if byte not in _ENTER:
                    _edit(line, byte)
        return line.decode("utf-8", "replace")

    async def _next(self, descriptor: int) -> int:
        if not self._read:
            await _until_readable(descriptor)
            self._read += os.read(descriptor, 4096) or bytes([_END])
        return self._read.pop(0)


def _standard_input() -> int:
    if sys.stdin is None:  # a process may start without one
        raise EOFError
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError):  # replaced, as in a notebook
        raise ConfigurationError("pasting needs a terminal or a pipe as input") from None
    except ValueError:  # closed
        raise EOFError from None


def _edit(line: bytearray, byte: int) -> None:
    """Apply a key as a terminal's line mode does."""
    if byte in _ERASE:
        del line[-1:]
    elif byte == _ERASE_ALL:
        line.clear()
    elif byte == _END:
        raise EOFError
    elif len(line) < _LONGEST:
        line.append(byte)


async def _until_readable(descriptor: int) -> None:
    """Wait for input without a thread, because a reading thread cannot be stopped."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except PermissionError:  # an ordinary file is always readable
        return
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


@contextmanager
def _without_echo(descriptor: int) -> Generator[None]:
    """Switch off a terminal's echo and line mode; leave other inputs as they are."""
    # Imported here: not every system has it.
    import termios  # noqa: PLC0415

    if not os.isatty(descriptor):
        yield
        return
    before = termios.tcgetattr(descriptor)
    changed = termios.tcgetattr(descriptor)
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(descriptor, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is closed
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
