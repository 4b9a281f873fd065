"""The ports of logins that ended without a response: this process keeps them for some minutes.

A tab of such a login may still be open. Its response, with a token, goes to whoever listens at the
port: while it is kept, that is a page that throws the response away.
"""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Coroutine
from functools import cache
from typing import Any, Final, TypeVar

from gateway_sdk.auth._callback_handler import CallbackHandler
from gateway_sdk.auth._loopback import CallbackServer, close_all

T = TypeVar("T")

SECONDS: Final = 300.0
"""As long as a login may take by default."""

MOST: Final = 8
"""Ports at a time; one more closes the oldest. A program that cancels logins leaves no more."""

CAN_SHARE: Final = os.name != "nt"
"""Windows' loop takes no socket that it, or another loop, has served before."""

# Only the thread changes it; the oldest first.
_kept: dict[object, tuple[list[socket.socket], asyncio.Task[None]]] = {}


def keep(place: object, sockets: list[socket.socket], handler: CallbackHandler[Any]) -> None:
    """Keep the port of these sockets, which stay the caller's own."""
    _run(_keep(place, [listener.dup() for listener in sockets], handler))


def take(place: object) -> list[socket.socket]:
    """Return the sockets of a kept port for another login; none if it is free now."""
    sockets = _run(_take(place)) if place in _kept else []
    if CAN_SHARE:
        return sockets
    close_all(sockets)
    return []


def wait() -> None:
    """Wait until no port is kept any more."""
    while _kept:
        time.sleep(0.1)  # Ctrl-C ends it


def is_any_kept() -> bool:
    return bool(_kept)


async def _keep(place: object, sockets: list[socket.socket], handler: CallbackHandler[Any]) -> None:
    if len(_kept) >= MOST:
        close_all(await _take(next(iter(_kept))))
    _kept[place] = sockets, asyncio.create_task(_serve(place, sockets, handler))


async def _take(place: object) -> list[socket.socket]:
    sockets, serving = _kept.pop(place)
    serving.cancel()
    await asyncio.wait([serving])
    return sockets


async def _serve(
    place: object, sockets: list[socket.socket], handler: CallbackHandler[Any]
) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            await CallbackServer(handler).run([listener.dup() for listener in sockets])
    except TimeoutError:
        del _kept[place]
        close_all(sockets)


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the thread, and wait for it: the thread never waits for others."""
    return asyncio.run_coroutine_threadsafe(coroutine, _thread(os.getpid())).result()


@cache
def _thread(_: int) -> asyncio.AbstractEventLoop:
    """Start the process's thread, and return its event loop; a fork has its own."""
    loop = asyncio.SelectorEventLoop()  # not Windows' usual one, see CAN_SHARE
    threading.Thread(target=loop.run_forever, name="gateway_sdk-ports", daemon=True).start()
    return loop
