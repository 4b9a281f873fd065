"""A lock that ends with the process that holds it."""

import errno
import importlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_WINDOWS: Final = os.name == "nt"
_TAKEN: Final = frozenset({errno.EACCES, errno.EAGAIN, errno.EDEADLK})
"""What the systems say of a lock that another holds."""


_held: Final = set["LockFile"]()


class LockFile:
    """A file that is there while its lock is held; it may be left, without the lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1

    def acquire(self) -> bool:
        """Take the lock; False if another holds it. Raises OSError where files have no locks."""
        while self._descriptor < 0:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                _lock(descriptor)
                # The last holder may have deleted the file meanwhile.
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(descriptor), self._path.stat()):
                        self._descriptor = descriptor
                        _held.add(self)
            except OSError as error:
                if error.errno in _TAKEN:
                    return False
                raise
            finally:
                if self._descriptor < 0:
                    os.close(descriptor)
        return True

    def release(self) -> None:
        if self._descriptor < 0:
            return
        descriptor, self._descriptor = self._descriptor, -1
        _held.discard(self)
        if _WINDOWS:  # where an open file cannot be deleted
            os.close(descriptor)
        with suppress(OSError):  # in a folder that has become read-only: it holds no lock then
            self._path.unlink()
        if not _WINDOWS:
            os.close(descriptor)

    def leave(self) -> None:
        """Close the file in a child process, which would hold the lock when its parent has died."""
        with suppress(OSError):  # another thread was giving it up
            os.close(self._descriptor)
        self._descriptor = -1


def leave_all() -> None:
    while _held:
        _held.pop().leave()


getattr(os, "register_at_fork", dict)(after_in_child=leave_all)  # Windows has no forks


def _lock(descriptor: int) -> None:
    # Imported by name, because each module exists only on its own system.
    if _WINDOWS:
        windows: Any = importlib.import_module("msvcrt")
        try:
            windows.locking(descriptor, windows.LK_NBLCK, 1)
        except OSError:  # it has one reason; wine gives a number that means something else
            raise OSError(errno.EACCES, "locked") from None
        return
    posix: Any = importlib.import_module("fcntl")
    posix.flock(descriptor, posix.LOCK_EX | posix.LOCK_NB)
