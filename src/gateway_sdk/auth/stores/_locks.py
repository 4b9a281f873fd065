"""Locks on files, which the system releases when their process ends, however it ends."""

from contextlib import suppress
from types import ModuleType

_fcntl: ModuleType | None = None
with suppress(ModuleNotFoundError):  # Windows has no fcntl: there nothing is locked
    import fcntl as _fcntl


def try_lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; return False if another opening of it is locked."""
    if _fcntl is None:
        return True
    try:
        _fcntl.flock(descriptor, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def unlock(descriptor: int) -> None:
    """Unlock an open file, also for a forked process that has it open."""
    if _fcntl is not None:
        with suppress(OSError):  # a file system without locks
            _fcntl.flock(descriptor, _fcntl.LOCK_UN)
