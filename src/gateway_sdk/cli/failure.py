"""The exit statuses, and the error that ends a command with one of them. Imports nothing heavy."""

from typing import Final

FAILED: Final = 1
"""For what no other status tells, such as a login that was not finished."""
MISUSED: Final = 2
"""The command line, a file or a setting has to change first."""
REFUSED: Final = 3
"""The gateway refused: nothing was changed."""
UNCHANGED: Final = 4
"""Nothing was sent, or a read got no usable reply. Running it again does no harm."""
UNKNOWN: Final = 5
"""It may have been done."""
APPLIED: Final = 6
"""It was done, but its reply could not be used or printed."""
STOPPED: Final = 130
"""By Ctrl-C, as shells say it: 128 and the number of the signal."""
READER_LEFT: Final = 141
"""The reader of the output has left, as `head` does: 128 and the number of SIGPIPE."""


class CommandError(Exception):
    """A command cannot go on, for a reason that its user can do something about.

    Attributes:
        status: The exit status of the process.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
