"""A user with a browser in a few lines, for tests and machines without a browser."""

import json
import logging
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPConnection, HTTPException
from typing import Literal, NamedTuple
from urllib.parse import urldefrag, urlencode, urljoin, urlsplit

# Bytes; the rest of a response is not read.
MAX_PAGE = 65536

_logger = logging.getLogger("gateway_sdk.sandbox")


class _VisitError(Exception):
    """Its message quotes no token."""


class _Response(NamedTuple):
    status: int
    location: str
    text: str
    sets_cookies: bool


@dataclass(frozen=True)
class Visitor:
    """Logs in at the sandbox's authorization server when called with the authorization URL.

    Also with a URL that sets a cookie and redirects to it, as `login` opens one.
    At the redirect URI it does what a browser does on the page of the SDK's loopback receiver: it
    gets the page, and posts fragment and query to its path as JSON. It blocks: call it in a thread
    if the running event loop serves the sandbox.

    Args:
        account: The account to log in with; any text.
        token: The kind of access token to choose on the page.
        decision: The button to press.
        timeout: Seconds for each wait on the network.
    """

    account: str = "ada@example.com"
    token: Literal["hour", "minute", "unstated", "expired", "revoked"] = "hour"  # noqa: S105 - a kind of token
    decision: Literal["allow", "deny"] = "allow"
    timeout: float = 10.0
    # By host and name: browsers send cookies to all ports of a host.
    _cookies: dict[tuple[str | None, str], str] = field(
        default_factory=dict[tuple[str | None, str], str], init=False, repr=False, compare=False
    )

    def __call__(self, url: str) -> bool:
        """Return whether the client took the response; if not, the log says why."""
        try:
            self._hand_over(self._log_in(url))
        except (_VisitError, HTTPException, OSError, ValueError) as error:
            # The messages of other errors may quote a token, so only their class is logged.
            reason = error if isinstance(error, _VisitError) else type(error).__name__
            _logger.warning("the visitor gave up: %s", reason)
            return False
        return True

    def _log_in(self, url: str) -> str:
        page = self._send("GET", url)
        if page.location and page.sets_cookies:
            url = page.location
            page = self._send("GET", url)
        if page.location:
            return page.location  # an error for the client, without a login page
        _require(page.status == 200, "the login page", page)  # noqa: PLR2004 - OK
        form = _Form()
        form.feed(page.text)
        fields = {"account": self.account, "token": self.token, "decision": self.decision}
        body = urlencode({**form.hidden, **fields})
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        decided = self._send("POST", urljoin(url, form.action), body, headers)
        _require(bool(decided.location), "the decision", decided)
        return decided.location

    def _hand_over(self, location: str) -> None:
        redirect_uri, fragment = urldefrag(location)
        page = self._send("GET", redirect_uri)
        _require(page.status == 200, "the redirect URI", page)  # noqa: PLR2004 - OK
        scheme, host, path, query, _ = urlsplit(redirect_uri)
        body = json.dumps({"fragment": fragment, "query": query})
        headers = {"Content-Type": "application/json", "Origin": f"{scheme}://{host}"}
        taken = self._send("POST", f"{scheme}://{host}{path}", body, headers)
        _require(taken.status // 100 == 2, "the posted response", taken)  # noqa: PLR2004 - any success

    def _send(
        self, method: str, url: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> _Response:
        # Not httpx: at DEBUG it logs the header Location, which holds the token.
        scheme, host, path, query, _ = urlsplit(url)
        if scheme != "http":
            raise _VisitError("only http URLs are supported")
        connection = HTTPConnection(host, timeout=self.timeout)
        try:
            target = f"{path or '/'}?{query}" if query else path or "/"
            cookies = {"Cookie": self._cookies_for(url)} if self._cookies_for(url) else {}
            connection.request(method, target, body, {**(headers or {}), **cookies})
            reply = connection.getresponse()
            set_cookies = reply.headers.get_all("Set-Cookie", [])
            self._keep(url, set_cookies)
            text = reply.read(MAX_PAGE).decode(errors="replace")
            location = reply.headers.get("Location", "")
            return _Response(reply.status, location, text, bool(set_cookies))
        finally:
            connection.close()

    def _cookies_for(self, url: str) -> str:
        host = urlsplit(url).hostname
        held = list(self._cookies.items())  # other threads may be visiting too
        return "; ".join(f"{name}={value}" for (where, name), value in held if where == host)

    def _keep(self, url: str, set_cookies: list[str]) -> None:
        for cookie in set_cookies:
            name, _, value = cookie.partition(";")[0].partition("=")
            key = urlsplit(url).hostname, name
            self._cookies[key] = value
            if not value:
                del self._cookies[key]


class _Form(HTMLParser):
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


def _require(valid: bool, what: str, reply: _Response) -> None:  # noqa: FBT001 - reads as a sentence
    if not valid:
        raise _VisitError(f"{what} was answered with status {reply.status}")
