"""Moments as people read them: in UTC, and how far from now. Pure."""

from datetime import UTC, datetime
from typing import Final

from gateway_sdk.auth import Token

UNTIL_REFUSED: Final = "it is refused: the authorization server did not say when it ends"

_UNITS: Final = (("days", 86400), ("h", 3600), ("min", 60), ("s", 1))
_LEAST: Final = 2
"""Below so many of a unit, the next smaller one says more."""


def describe_start(token: Token, now: float) -> str:
    """Say since when there is a token."""
    return describe_moment(token.obtained_at, now)


def describe_end(token: Token, now: float) -> str:
    """Say until when a token lasts."""
    if token.expires_at is None:
        return UNTIL_REFUSED
    return describe_moment(token.expires_at, now)


def describe_moment(moment: float, now: float) -> str:
    """Write a moment in UTC, and how far away it is; both are seconds since 1970."""
    distance = format_span(abs(moment - now))
    text = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{text}, {distance} ago" if moment < now else f"{text}, in {distance}"


def format_span(seconds: float) -> str:
    """Write a number of seconds in the unit that is large enough, without fractions."""
    whole = round(seconds)
    unit, size = next((pair for pair in _UNITS if whole >= _LEAST * pair[1]), _UNITS[-1])
    return f"{round(whole / size)} {unit}"
