"""What an authorization server sends back through the browser: its parameters. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, unquote_plus

from gateway_sdk.errors import MalformedResponseError, StateMismatchError

MAX_LENGTH: Final = 64 * 1024
"""Characters of fragment and query together: tokens of tens of kilobytes do exist."""

MAX_PARAMETERS: Final = 64

_MAX_WORDS: Final = 300
"""Characters of the server's own words that are kept: a sentence, not a page."""

# All but RFC 6749, appendices A.7 to A.9: a terminal or a page could take it for a command.
_NOT_SHOWN: Final = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")


@dataclass(frozen=True, slots=True, repr=False)
class Answer:
    """The parameters of an answer, as they came: names may repeat until `single` is asked."""

    fragment: tuple[tuple[str, str], ...]
    query: tuple[tuple[str, str], ...] = field(default=())

    @classmethod
    def of(cls, fragment: str, query: str) -> "Answer":
        """Take a fragment and a query apart, both without their first character.

        Raises:
            StateMismatchError: they are far too long or too many, so no state is looked for.
        """
        if len(fragment) + len(query) > MAX_LENGTH:
            raise StateMismatchError(f"the answer is longer than {MAX_LENGTH} characters")
        if fragment.count("&") + query.count("&") >= MAX_PARAMETERS:
            raise StateMismatchError(f"the answer has more than {MAX_PARAMETERS} parameters")
        return cls(tuple(_pairs(fragment)), tuple(_pairs(query)))

    def all(self, name: str) -> list[str]:
        """Return every value of a parameter, in the fragment or in the query."""
        return [text for key, text in (*self.fragment, *self.query) if key == name]

    def single(self) -> dict[str, str]:
        """Return the parameters by name.

        Raises:
            MalformedResponseError: one comes twice (RFC 6749, 3.1), or the token in the query,
                which servers and proxies write into their logs (RFC 6750, 5.3).
        """
        pairs = (*self.fragment, *self.query)
        found = dict(pairs)
        if len(found) < len(pairs):
            raise MalformedResponseError("a parameter of the answer is there more than once")
        if any(name == "access_token" for name, _ in self.query):
            raise MalformedResponseError("the answer has its token in the query, not the fragment")
        return found


def printable(text: str) -> str:
    """Return a server's words on one line, without what a terminal or a page could act upon."""
    shown = _NOT_SHOWN.sub("?", text)
    return shown if len(shown) <= _MAX_WORDS else f"{shown[:_MAX_WORDS]}..."


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Take form-encoded parameters apart (RFC 6749, appendix B)."""
    for piece in text.split("&"):
        name, equals, value = piece.partition("=")
        if equals:
            # A plus in a token is a plus, encoded or not: it may hold one, and never a space.
            decode = unquote if name == "access_token" else unquote_plus
            yield unquote_plus(name), decode(value)
