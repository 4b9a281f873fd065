"""Claims to log in: of several processes that need a login at once, one asks its user."""

import asyncio
import os
import secrets
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from gateway_sdk.auth.stores._locks import try_lock, unlock

_OPEN: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
_MARK: Final = 32
"""Bytes of a mark."""


class LoginClaim(Protocol):
    """A claim to log in and to save the token, which one caller at a time is granted.

    Attributes:
        granted: Whether this caller has it; if not, another one is logging in.
        failure: A mark of the last login that failed; "" if there was none.
    """

    granted: bool
    failure: str

    async def keep(self) -> None:
        """Keep a claim for the next 30 s; called every 10 s."""
        ...

    async def end(self, *, failed: bool) -> None:
        """Give a granted claim back.

        Args:
            failed: Whether the login failed; then those who waited for it are told so.
        """
        ...


class FileClaim:
    """A claim by a lock of a file; a process that ends, however it does, gives it back."""

    _descriptor = -1

    def __init__(self, path: Path) -> None:
        """Open the file, and lock it if it is free.

        Raises:
            OSError: The file cannot be opened.
        """
        self._pid = os.getpid()
        self._descriptor = os.open(path, _OPEN, 0o600)
        self.granted = try_lock(self._descriptor)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self.failure = os.read(self._descriptor, _MARK).decode("ascii", "replace")
        if not self.granted:
            self._close()

    async def keep(self) -> None:
        """Do nothing: a lock lasts until it is given back."""

    async def end(self, *, failed: bool) -> None:
        """Unlock the file."""
        with suppress(OSError):  # the mark is worth no more than an attempt
            if failed:
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                os.write(self._descriptor, _new_mark().encode())
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            if os.getpid() == self._pid:  # a forked process has the file open, not the claim
                unlock(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        # A claim that was granted in a thread for a task that had been cancelled by then.
        self._close()


class MemoryClaims:
    """Grants claims within this process, to one event loop at a time."""

    def __init__(self) -> None:
        self.failure = ""
        self._holder: asyncio.AbstractEventLoop | None = None
        self._pid = os.getpid()
        self._taking = threading.Lock()

    def take(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Return whether an event loop may log in: no other does that is still open."""
        with self._taking:
            # A forked process has a copy of its parent's loop, which nothing runs and closes there.
            is_held = self._holder is not None and not self._holder.is_closed()
            if is_held and self._pid == os.getpid():
                return False
            self._holder, self._pid = loop, os.getpid()
            return True

    def give_back(self) -> None:
        """Let another one log in."""
        self._holder = None


class MemoryClaim:
    """A claim in memory."""

    def __init__(self, claims: MemoryClaims) -> None:
        self.granted = claims.take(asyncio.get_running_loop())
        self.failure = claims.failure
        self._claims = claims

    async def keep(self) -> None:
        """Do nothing: it lasts until it is given back, or its event loop is closed."""

    async def end(self, *, failed: bool) -> None:
        """Give it back."""
        if failed:
            self._claims.failure = _new_mark()
        self._claims.give_back()


def _new_mark() -> str:
    return secrets.token_hex(_MARK // 2)
