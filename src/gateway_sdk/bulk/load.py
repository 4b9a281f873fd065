"""What attempts say about the load that a gateway bears."""

from typing import Final

from gateway_sdk.errors import DeadlineExceededError, ReplyTimeoutError

BUSY: Final = frozenset({408, 429, 503, 504})
"""Statuses that may say: too many at once."""

_SERVER_ERROR: Final = 500
_TOO_SLOW: Final = (ReplyTimeoutError.__name__, DeadlineExceededError.__name__)


def was_refused(status: int | None, error: str | None) -> bool | None:
    """Tell whether it was too much for the gateway; None if that cannot be told."""
    if status in BUSY or error in _TOO_SLOW:
        return True
    return False if status is not None and status < _SERVER_ERROR else None


class Tally:
    """What came of the attempts since the last change.

    Attributes:
        fine: Those that the gateway took.
        refused: Those that it did not.
        watched: All of them since the first refusal that is still looked into.
    """

    def __init__(self) -> None:
        self.fine = 0
        self.refused = 0
        self.watched = 0
        self.watched_refused = 0

    def count(self, *, refused: bool) -> None:
        """Count an attempt."""
        self.fine += not refused
        self.refused += refused
        if refused or self.watched:
            self.watched += 1
            self.watched_refused += refused

    def forget(self) -> None:
        """Look into it no longer."""
        self.watched = self.watched_refused = 0
