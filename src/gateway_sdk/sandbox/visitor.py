"""A person and their browser in a few lines, for tests and wherever no browser is at hand."""

import json
import logging
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPConnection, HTTPException
from typing import Literal, NamedTuple
from urllib.parse import urldefrag, urlencode, urljoin, urlsplit

# Of bytes: more of an answer is not read.
MAX_PAGE = 65536

_logger = logging.getLogger(__name__)


class _VisitError(Exception):
    """The visit went no further."""


class _Reply(NamedTuple):
    status: int
    location: str
    text: str


@dataclass(frozen=True)
class Visitor:
    """Logs in at the sandbox's authorization server when called with the authorization URL.

    It then does at the redirect URI what a browser does at a page that hands over its fragment:
    gets the page, and posts fragment and query to its path as JSON. It blocks, so call it in a
    thread when the sandbox is served by the running event loop.

    Args:
        token: The kind of token to hand out, as on the page.
        timeout: Seconds, for each wait on the network.
    """

    account: str = "ada@example.com"
    token: Literal["hour", "minute", "unstated", "expired", "revoked"] = "hour"  # noqa: S105 - a kind of token
    decision: Literal["allow", "deny"] = "allow"
    timeout: float = 10.0

    def __call__(self, url: str) -> bool:
        """Tell whether the client has taken the answer; if not, the log says where it ended."""
        try:
            self._hand_over(self._log_in(url))
        except (_VisitError, HTTPException, OSError, ValueError) as error:
            # Others than ours may quote what they were given, so only their name is told.
            reason = error if isinstance(error, _VisitError) else type(error).__name__
            _logger.warning("the visitor gave up: %s", reason)
            return False
        return True

    def _log_in(self, url: str) -> str:
        page = self._send("GET", url)
        if page.location:
            return page.location  # the client is told of its mistake, and nobody is asked
        _require(page.status == 200, "the login page", page)  # noqa: PLR2004 - OK
        form = _Form()
        form.feed(page.text)
        fields = {"account": self.account, "token": self.token, "decision": self.decision}
        body = urlencode({**form.hidden, **fields})
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        answer = self._send("POST", urljoin(url, form.action), body, headers)
        _require(bool(answer.location), "the decision", answer)
        return answer.location

    def _hand_over(self, location: str) -> None:
        redirect_uri, fragment = urldefrag(location)
        page = self._send("GET", redirect_uri)
        _require(page.status == 200, "the redirect URI", page)  # noqa: PLR2004 - OK
        scheme, host, path, query, _ = urlsplit(redirect_uri)
        body = json.dumps({"fragment": fragment, "query": query})
        headers = {"Content-Type": "application/json", "Origin": f"{scheme}://{host}"}
        taken = self._send("POST", f"{scheme}://{host}{path}", body, headers)
        _require(taken.status // 100 == 2, "the answer", taken)  # noqa: PLR2004 - any success

    def _send(
        self, method: str, url: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> _Reply:
        # Not httpx: at DEBUG its engine logs the header Location, and with it the token.
        scheme, host, path, query, _ = urlsplit(url)
        if scheme != "http":
            raise _VisitError("it speaks plain http only")
        connection = HTTPConnection(host, timeout=self.timeout)
        try:
            target = f"{path or '/'}?{query}" if query else path or "/"
            connection.request(method, target, body, headers or {})
            reply = connection.getresponse()
            text = reply.read(MAX_PAGE).decode(errors="replace")
            return _Reply(reply.status, reply.headers.get("Location", ""), text)
        finally:
            connection.close()


class _Form(HTMLParser):
    """The hidden fields of a page, and where its form goes."""

    def __init__(self) -> None:
        super().__init__()
        self.action = ""
        self.hidden: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.action = attributes.get("action", "")
        if tag == "input" and attributes.get("type") == "hidden":
            self.hidden[attributes["name"]] = attributes["value"]


def _require(fits: bool, what: str, reply: _Reply) -> None:  # noqa: FBT001 - reads as a sentence
    if not fits:
        raise _VisitError(f"{what} was answered with status {reply.status}")
