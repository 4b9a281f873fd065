"""Keys in bold, with values that are indented beside them; and moments of time as such values."""

from collections.abc import Iterable
from datetime import UTC, datetime
from textwrap import wrap
from typing import Final

from rich.console import Console
from rich.text import Text

KEY_COLUMNS: Final = 11

KeyValue = tuple[str, str]

_UNITS: Final = (("days", 86400), ("h", 3600), ("min", 60), ("s", 1))
_LEAST: Final = 2
"""Below so many of a unit, the next smaller one says more."""


def print_key_values(console: Console, pairs: Iterable[KeyValue]) -> None:
    """Print keys and values as wide as the console is; a long word, such as a path, stays whole."""
    # soft_wrap: the lines are set already, and what is too long has to stay in one piece.
    console.print(key_value_lines(pairs, console.width), soft_wrap=True)


def key_value_lines(pairs: Iterable[KeyValue], width: int) -> Text:
    """Set them in lines of *width* columns at most; a word that is longer stays whole."""
    return Text("\n").join(line for key, value in pairs for line in _lines(key, value, width))


def _lines(key: str, value: str, width: int) -> list[Text]:
    texts = wrap(value, width - KEY_COLUMNS, break_long_words=False, break_on_hyphens=False)
    keys = [key] + [""] * (len(texts) - 1)
    return [
        Text.assemble((f"{name:<{KEY_COLUMNS}}", "bold"), text)
        for name, text in zip(keys, texts or [""], strict=True)
    ]


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
