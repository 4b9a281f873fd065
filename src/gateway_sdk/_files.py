"""Files that processes share: replaced as a whole, locked, or kept from other users."""

import errno
import importlib
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, Final, TypeVar

T = TypeVar("T")

_WINDOWS: Final = os.name == "nt"
"""Where files have no modes: there the access lists of the profile's folders protect them."""

_TAKEN: Final = frozenset({errno.EACCES, errno.EAGAIN, errno.EDEADLK})
"""What the systems say of a lock that another holds."""

_TRIES: Final = 100
_PAUSE: Final = 0.01
"""Seconds before each further try: other processes read and replace a file in less than all."""


def patiently(work: Callable[[], T], passing: type[OSError] | None = None) -> T:
    """Do again what fails so, or what Windows refuses while another process has the file open."""
    for _ in range(_TRIES - 1 if passing or _WINDOWS else 0):
        with suppress(passing or PermissionError):
            return work()
        time.sleep(_PAUSE)
    return work()


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Generator[IO[bytes]]:
    """Open a draft of a file, which replaces it at the end, unless there is an error."""
    # In the same folder, because a file can be replaced only within one file system.
    # Not `tempfile`: before 3.12.3 it tries for ever in a folder that Windows protects.
    draft = path.with_name(f".{path.name}.{token_hex(4)}")
    try:
        with open(draft, "xb", opener=partial(os.open, mode=mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        patiently(lambda: draft.replace(path))
    except OSError as error:
        if error.filename == str(draft):  # of which the caller knows nothing
            error.filename = str(path)
        raise
    finally:
        with suppress(OSError):  # it exists only after an error
            draft.unlink()


def others_may(use: int, status: os.stat_result) -> bool:
    """Tell whether a mode lets other users do this, such as S_IWOTH; their group counts, too."""
    return not _WINDOWS and bool(status.st_mode & (use | use << 3))


def is_of_another(status: os.stat_result) -> bool:
    return not _WINDOWS and status.st_uid != os.getuid()


def make_folders(folder: Path) -> None:
    """Create a folder and its parents, where they are missing, for this user alone."""
    # `Path.mkdir(parents=True)` would create the parents with the umask's mode.
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


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
