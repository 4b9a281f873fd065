"""What the receiver answers to which request, without any I/O.

One request ends the wait: a POST by the page itself, whose answer carries our state. All else is
turned away, and the wait goes on.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from gateway_sdk.auth.loopback.page import page, policy
from gateway_sdk.errors import LoginError, StateMismatchError

T = TypeVar("T")

_ON_ALL: Final = MappingProxyType(
    {
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
)


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """A request as it came; names of headers are in lower case, and may repeat."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    def header(self, name: str) -> str | None:
        """Return the value of a header; several become one text, which equals none expected."""
        values = [text for key, text in self.headers if key == name]
        return ", ".join(values) if values else None


@dataclass(frozen=True, slots=True, repr=False)
class Reply:
    """A reply to be sent."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    more: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def headers(self) -> dict[str, str]:
        """Every header but those of the connection."""
        return {
            **_ON_ALL,
            "Content-Type": self.content_type,
            "Content-Length": str(len(self.body)),
            **self.more,
        }


class Desk(Generic[T]):
    """Where a login's answer is handed in.

    Attributes:
        is_over: Whether an answer has come that carries our state.
        refused: Answers that came and did not.
    """

    def __init__(self, authority: str, path: str, finish: Callable[[str, str], T]) -> None:
        """Take the host and port and the path of the redirect URI, and what reads an answer."""
        self.is_over = False
        self.refused = 0
        self._authority = authority
        self._path = path
        self._finish = finish
        self._result: T
        self._error: Exception | None = None

    def result(self) -> T:
        """Return what the answer that ended the wait was read as, or raise why it was not."""
        if self._error is not None:
            raise self._error
        return self._result

    def reply(self, request: Request) -> Reply:
        """Answer a request."""
        if request.header("host") != self._authority:
            # Another name for this address: DNS rebinding.
            return Reply(421, b"This address answers to its own name only.\n")
        if request.target.partition("?")[0] != self._path:
            return Reply(404, b"There is nothing here.\n")
        if request.method == "GET":
            return self._page(request)
        if request.method == "POST":
            return self._take(request)
        return Reply(405, b"Only GET and POST.\n", more={"Allow": "GET, POST"})

    def _page(self, request: Request) -> Reply:
        """Show the page to whoever goes to it, but not inside of another one."""
        # Browsers that say what they want it for say "document" (Fetch Metadata).
        if request.header("sec-fetch-dest") not in (None, "document"):
            return Reply(403, b"This is a page of its own.\n")
        return Reply(
            200, page(), "text/html; charset=utf-8", more={"Content-Security-Policy": policy()}
        )

    def _take(self, request: Request) -> Reply:
        """Take an answer, from our page only."""
        if request.header("origin") != f"http://{self._authority}":
            return Reply(403, b"Only the page here may do that.\n")
        if request.header("sec-fetch-site") not in (None, "same-origin"):
            return Reply(403, b"Only the page here may do that.\n")
        if request.header("content-type") != "application/json":
            return Reply(415, b"Only application/json.\n")
        answer = _parse(request.body)
        if answer is None:
            return Reply(400, b"Only an object with fragment and query.\n")
        return self._hand_in(*answer)

    def _hand_in(self, fragment: str, query: str) -> Reply:
        if self.is_over:
            return _told(409, "Another answer was here first", _DONE)
        try:
            self._result = self._finish(fragment, query)
        except StateMismatchError as error:
            self.refused += 1
            return _told(400, "This does not belong to the login that waits here", f"{error}.")
        except Exception as error:  # noqa: BLE001 - whatever it is, it goes to who waits
            self.is_over, self._error = True, error
            why = f"{error}." if isinstance(error, LoginError) else "Something went wrong."
            return _told(200, "You are not logged in", f"{_sentence(why)} {_CLOSE}")
        self.is_over = True
        return _told(200, "You are logged in", f"{_DONE} {_CLOSE}", good=True)


_DONE: Final = "The program that asked for this login has its answer."
_CLOSE: Final = "You can close this tab and go back to where you began."


def _parse(body: bytes) -> tuple[str, str] | None:
    """Return the fragment and the query that the page sent, or None if it was not our page."""
    try:
        parsed: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, dict) or set(parsed) != {"fragment", "query"}:
        return None
    fragment, query = parsed["fragment"], parsed["query"]
    if not isinstance(fragment, str) or not isinstance(query, str):
        return None
    return fragment, query


def _told(status: int, heading: str, text: str, *, good: bool = False) -> Reply:
    """Tell the page what to show."""
    shown = {"good": good, "heading": heading, "text": text}
    return Reply(status, json.dumps(shown).encode(), "application/json")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
