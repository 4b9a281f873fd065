"""Text of others, made safe to look at. Pure."""

from typing import Final
from unicodedata import category

UNSEEN: Final = frozenset({"Cc", "Zl", "Zp"})
"""Control characters, among them those that move a terminal's cursor, and line breaks."""

TURNING: Final = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
"""They reverse the text around them, so that it reads as what it is not (UAX #9, 2)."""


def printable(text: str) -> str:
    r"""Write text on one line, with what would steer a terminal as escapes such as \n and \x1b."""
    return "".join(_escape(character) if _steers(character) else character for character in text)


def _steers(character: str) -> bool:
    return category(character) in UNSEEN or character in TURNING


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
