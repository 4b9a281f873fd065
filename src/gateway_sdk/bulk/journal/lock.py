"""One run at a time on one file, whichever process it is in."""

import importlib
import os
from typing import Any, Final

WINDOWS: Final = os.name == "nt"

_FAR: Final = 2**40
"""Where the byte is that Windows locks: nobody reads there."""


def lock(descriptor: int) -> None:
    """Take the file, until it is closed or the process ends.

    Raises:
        OSError: somebody else has it.
    """
    if WINDOWS:
        # By name, because each module is there on its own system only.
        windows: Any = importlib.import_module("msvcrt")
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        windows.locking(descriptor, windows.LK_NBLCK, 1)
        return
    posix: Any = importlib.import_module("fcntl")
    posix.flock(descriptor, posix.LOCK_EX | posix.LOCK_NB)
