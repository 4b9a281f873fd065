"""What attempts say about the load that a gateway bears."""

from typing import Final

from gateway_sdk.errors import DeadlineExceededError, ReplyTimeoutError

TOO_MANY: Final = 429

BUSY: Final = frozenset({408, TOO_MANY, 503, 504})
"""Statuses that may say: too many at once."""

_SERVER_ERROR: Final = 500
_TOO_SLOW: Final = (ReplyTimeoutError.__name__, DeadlineExceededError.__name__)


def was_refused(status: int | None, error: str | None) -> bool | None:
    """Tell whether it was too much for the gateway; None if that cannot be told."""
    if status in BUSY or error in _TOO_SLOW:
        return True
    return False if status is not None and status < _SERVER_ERROR else None
