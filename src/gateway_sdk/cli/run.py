"""Running a command's coroutine so that Ctrl-C always reaches it."""

import asyncio
import signal
import socket
import sys
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the main thread; Ctrl-C cancels it and is raised at its end.

    A loop of POSIX that `asyncio.run` made sleeps on if the signal comes just before it begins to
    wait (about 1 in 15 000 where the signal comes at that time): its handler runs only once
    something else happens. Here the signal also writes to a socket that the loop waits for.
    """
    with asyncio.Runner() as runner:
        # Windows' loop does this by itself.
        windows = sys.platform == "win32"
        with nullcontext() if windows else _woken_by_signals(runner.get_loop()):
            return runner.run(work)


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for end in (ours, theirs):
            end.settimeout(0)
        loop.add_reader(ours, ours.recv, 4096)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)
