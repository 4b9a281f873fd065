"""Single values of a reply as text, for a cell or a line. Pure but for the JSON library."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import simplejson

PLAIN_DIGITS: Final = 40
"""Beyond so many digits, 1E+1000000 among them, a number keeps its exponent."""


def to_json(value: Any, *, indent: int | None = 2) -> str:
    """Write a value as JSON; a Decimal comes out as the number that it is, to the last digit.

    C1 control characters, which steer some terminals, are escaped: to JSON that is the same.
    """
    text: str = simplejson.dumps(value, use_decimal=True, ensure_ascii=False, indent=indent)
    return "".join(f"\\u{ord(c):04x}" if "\x7f" <= c <= "\x9f" else c for c in text)


def to_cell(value: Any) -> str:
    """Write a value as the text of a cell: None is empty, what is nested is JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case Decimal():
            return _plain(value)
        case Mapping() | list() | bool():
            return to_json(value, indent=None)
        case _:
            return str(value)


def is_number(value: Any) -> bool:
    """Tell whether a value is a number of JSON."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _plain(number: Decimal) -> str:
    """Write a number without an exponent, unless that takes too many digits."""
    _, digits, exponent = number.as_tuple()
    short = isinstance(exponent, int) and abs(exponent) + len(digits) <= PLAIN_DIGITS
    return format(number, "f") if short else str(number)
