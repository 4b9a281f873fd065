"""Single values as text, for a cell or a line."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import simplejson

PLAIN_DIGITS: Final = 40
"""A number with more digits, such as 1E+1000000, keeps its exponent."""

FAST: Final = 10
"""From so many a second, a speed has no fraction."""

_UNITS: Final = (("days", 86400), ("h", 3600), ("min", 60), ("s", 1))
_LEAST: Final = 2
"""With fewer of a unit, the next smaller unit is used."""


def printable(text: str) -> str:
    r"""Write text on one line, with what cannot be seen as escapes such as \n and \x1b.

    That includes characters that move a terminal's cursor or reverse the text around them.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Write a value as JSON; a Decimal keeps all its digits.

    C1 control characters, which some terminals obey, are escaped: to JSON that is the same.
    """
    text: str = simplejson.dumps(value, use_decimal=True, ensure_ascii=False, indent=indent)
    return "".join(f"\\u{ord(c):04x}" if "\x7f" <= c <= "\x9f" else c for c in text)


def to_cell(value: Any) -> str:
    """Write a value as the text of a cell: None is empty, lists and objects are JSON."""
    match value:
        case None:
            return ""
        case Decimal():
            _, digits, exponent = value.as_tuple()
            short = isinstance(exponent, int) and abs(exponent) + len(digits) <= PLAIN_DIGITS
            return format(value, "f") if short else str(value)
        case Mapping() | list() | bool():
            return to_json(value, indent=None)
        case _:
            return str(value)


def describe_moment(moment: float, now: float) -> str:
    """Write a moment in UTC, and how far away it is; both are seconds since 1970."""
    distance = format_span(abs(moment - now))
    text = datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{text}, {distance} ago" if moment < now else f"{text}, in {distance}"


def describe_pace(speed: float, left: float) -> tuple[str, str]:
    """Write a speed, in items per second, and the time for the items that are left."""
    written = f"{speed:.0f}/s" if speed >= FAST else f"{speed:.1f}/s"
    return written, f"{format_span(left / speed)} left"


def format_span(seconds: float) -> str:
    """Write a number of seconds in a unit of fitting size, without fractions."""
    whole = round(seconds)
    unit, size = next((pair for pair in _UNITS if whole >= _LEAST * pair[1]), _UNITS[-1])
    return f"{round(whole / size)} {unit}"
