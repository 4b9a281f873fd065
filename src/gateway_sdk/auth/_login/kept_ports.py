"""The ports of logins that ended without a response: they are kept for some minutes.

A tab of such a login may still be open, and its response, with a token, goes to whoever listens at
the port. While the port is kept, that is a page that throws the response away.
"""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from functools import cache
from typing import Any, Final, TypeVar

from gateway_sdk.auth._login.handler import CallbackHandler
from gateway_sdk.auth._login.server import CallbackServer, close_all, copy_all, listening
from gateway_sdk.auth.source import DEFAULT_LOGIN_TIMEOUT

T = TypeVar("T")

KEPT_SECONDS: Final = DEFAULT_LOGIN_TIMEOUT
MOST_KEPT: Final = 8
"""Ports at a time; one more closes the oldest. A program that cancels logins leaves no more."""

_CAN_SHARE: Final = os.name != "nt"
"""Windows' loop takes no socket that it, or another loop, has served before."""

# The kept ports, the oldest first, and the tasks that serve them; only the thread changes them.
_kept: dict[object, tuple[list[socket.socket], asyncio.Task[None]]] = {}


def is_a_port_kept() -> bool:
    return bool(_kept)


def wait_for_kept_ports() -> None:
    """Wait until no port is kept any more."""
    while _kept:
        time.sleep(0.1)  # Ctrl-C ends it


def take_port(place: object) -> list[socket.socket]:
    """Return the sockets of a kept port for another login; none if it is free now."""
    return _run(_take(place)) if _kept else []


def keep_port(place: object, sockets: list[socket.socket], handler: CallbackHandler) -> None:
    """Keep the port of a login, behind a page that throws its response away."""
    handler.result.cancel()
    _run(_keep(place, sockets, handler))


async def _keep(place: object, sockets: list[socket.socket], handler: CallbackHandler) -> None:
    if len(_kept) >= MOST_KEPT:
        close_all(await _take(next(iter(_kept))))
    _kept[place] = sockets, asyncio.create_task(_serve(place, sockets, handler))


async def _take(place: object) -> list[socket.socket]:
    if place not in _kept:  # another login has taken it, or its time is over
        return []
    sockets, serving = _kept.pop(place)
    taken = copy_all(sockets) if _CAN_SHARE else []  # before the server closes them
    serving.cancel()
    await asyncio.wait([serving])
    return taken


async def _serve(place: object, sockets: list[socket.socket], handler: CallbackHandler) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(KEPT_SECONDS):
            await CallbackServer(handler, is_kept=True).run(sockets)
    _kept.pop(place, None)


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the thread, and wait for it: the thread never waits for others."""
    return asyncio.run_coroutine_threadsafe(coroutine, _thread(os.getpid())).result()


@cache
def _thread(_: int) -> asyncio.AbstractEventLoop:
    """Start the process's thread, and return its event loop; a fork has its own."""
    loop = asyncio.SelectorEventLoop()  # not Windows' usual one, see _CAN_SHARE
    threading.Thread(target=loop.run_forever, name="gateway_sdk-ports", daemon=True).start()
    return loop


def _forget_ports() -> None:
    """Close what a fork has of its parent: no task serves it there."""
    close_all(list(listening))
    _kept.clear()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows has no forks
    os.register_at_fork(after_in_child=_forget_ports)
