"""A user with a browser in a few lines, for tests and machines without a browser."""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPException
from types import MappingProxyType
from typing import Any, Final, Literal
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import (
    HTTPCookieProcessor,
    HTTPRedirectHandler,
    ProxyHandler,
    Request,
    build_opener,
)

# Bytes; the rest of a page is not read.
MAX_PAGE = 65536

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

_logger = logging.getLogger("gateway_sdk.sandbox")


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

    def __call__(self, url: str) -> bool:
        """Return whether the client took the response; if not, the log says why."""
        try:
            cookies = HTTPCookieProcessor()
            self._hand_over(self._log_in(url, cookies), cookies)
        except (HTTPException, OSError, ValueError) as error:
            # Messages may quote a token, so they are not logged.
            cause = error.reason if type(error) is URLError else error
            reason = str(error) if isinstance(error, _VisitError) else type(cause).__name__
            _logger.warning("the visitor gave up: %s", reason)
            return False
        return True

    def _log_in(self, url: str, cookies: HTTPCookieProcessor) -> str:
        """Return the address of the answer, which is not visited yet."""
        handlers = (_Redirects, cookies)
        try:
            url, page = self._open("the login page", handlers, url)
            form = _Form()
            form.feed(page)
            fields = {"account": self.account, "token": self.token, "decision": self.decision}
            body = urlencode({**form.hidden, **fields}).encode()
            self._open("the decision", handlers, urljoin(url, form.action), body)
        except _Answer as answer:  # or an error for the client, without a login page
            return str(answer)
        raise _VisitError("the decision was answered with a page")

    def _hand_over(self, location: str, cookies: HTTPCookieProcessor) -> None:
        handlers = (_NoRedirects, cookies)
        self._open("the redirect URI", handlers, location)
        scheme, host, path, query, fragment = urlsplit(location)
        body = json.dumps({"fragment": fragment, "query": query}).encode()
        headers = {"Content-Type": "application/json", "Origin": f"{scheme}://{host}"}
        self._open("the posted response", handlers, f"{scheme}://{host}{path}", body, headers)

    def _open(
        self,
        what: str,
        handlers: Iterable[Any],
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> tuple[str, str]:
        """Return the address that redirects led to, and the text there."""
        # Not httpx: at DEBUG it logs the header Location, which holds the token.
        if urlsplit(url).scheme != "http":
            raise _VisitError("only http URLs are supported")
        opener = build_opener(ProxyHandler({}), *handlers)
        request = Request(url, body, dict(headers))  # noqa: S310 - http
        try:
            with opener.open(request, timeout=self.timeout) as reply:
                return reply.url, reply.read(MAX_PAGE).decode(errors="replace")
        except HTTPError as error:
            error.close()
            raise _VisitError(f"{what} was answered with status {error.code}") from None


class _VisitError(ValueError):
    """Its message quotes no token."""


class _Answer(Exception):  # noqa: N818 - no error
    """Where a redirect with a fragment leads to."""


class _Redirects(HTTPRedirectHandler):
    def redirect_request(  # noqa: PLR0917 - the signature is urllib's
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        if "#" in newurl:
            raise _Answer(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Leave the redirect as an HTTPError: a client that redirects has not taken the answer."""


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
