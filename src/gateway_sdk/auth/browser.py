"""Going to the address where a person logs in."""

import asyncio
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TypeAlias

Browser: TypeAlias = str | Callable[[str], bool] | Literal[False] | None
"""What opens an address: None for this machine's own browser, a command with `%s` where the
address goes (`"chromium --incognito %s"`), a function that tells whether it could, or False for
nothing at all."""


async def open_browser(url: str, browser: str | Callable[[str], bool] | None) -> bool:
    """Open an address and tell whether that went well; it may block for as long as it likes.

    It runs in a thread of its own: a text browser blocks until it is left, and threads of the
    default executor are waited for at the end of the process.
    """
    loop, opened = asyncio.get_running_loop(), asyncio.Event()
    results: list[bool] = []

    def run() -> None:
        try:
            results.append(_open(url, browser))
        except Exception:  # noqa: BLE001 - it is the user's, and the person is told what to do
            results.append(False)
        with suppress(RuntimeError):  # the loop has gone, and nobody waits any more
            loop.call_soon_threadsafe(opened.set)

    threading.Thread(target=run, name="gateway_sdk-browser", daemon=True).start()
    await opened.wait()
    return results[0]


def _open(url: str, browser: str | Callable[[str], bool] | None) -> bool:
    if callable(browser):
        return bool(browser(url))
    if browser is None:
        return webbrowser.open(url)  # the first one that works
    return webbrowser.get(browser).open(url)
