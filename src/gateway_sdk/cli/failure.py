"""The exit statuses, and the error that ends a command with one of them."""

from typing import Final

FAILED: Final = 1
"""Any other failure, such as a login that was not finished."""
MISUSED: Final = 2
"""The command line, a file or a setting is wrong."""
REFUSED: Final = 3
"""The gateway refused: nothing was changed."""
UNCHANGED: Final = 4
"""Nothing was sent, or a read got no usable reply. Running it again does no harm."""
UNKNOWN: Final = 5
"""It may have been done."""
APPLIED: Final = 6
"""It was done, but its reply could not be used or printed."""
STOPPED: Final = 130
"""Stopped by Ctrl-C: 128 and the number of the signal, as in shells."""
READER_LEFT: Final = 141
"""The reader of the output has closed it, as `head` does: 128 and the number of SIGPIPE."""


class CommandError(Exception):
    """The reason why a command cannot continue; its message is for the user.

    Attributes:
        status: The exit status of the process.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
