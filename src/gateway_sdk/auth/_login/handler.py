"""The receiver's replies to requests, its start addresses and its pages. Pure: no network.

Two requests end the wait. One is a POST by the page itself, from the browser that opened the
login's start address, with the login's state. The other is the start address being opened a
second time: then it is not known which of the two belongs to the user. All other requests are
refused, and the wait continues.
"""

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any, Final

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from gateway_sdk._url import is_loopback
from gateway_sdk.errors import LoginError, StateMismatchError


@dataclass(frozen=True, slots=True, repr=False)
class CallbackRequest:
    method: str
    target: str
    headers: httpx.Headers  # several of one name are joined, and so equal no expected value
    body: bytes = b""


_MAX_AGE: Final = 24 * 60 * 60
"""Seconds that a browser keeps the cookie of a login that was never finished."""


class StartAddress:
    """A one-time address that leads on to an authorization URL: it binds a login to one browser."""

    # All users of a machine can read the arguments of a browser's command, and who knows the state
    # in the authorization URL could end the login with another token. So the browser gets this
    # address, whose reply sets a cookie; the response is accepted only with the cookie.

    def __init__(self, authorization_url: str, answer_path: str) -> None:
        self.path = f"/{secrets.token_urlsafe(32)}"  # it cannot be guessed
        self.is_opened = False
        # Cookies go to all ports of a host: other logins and other programs there have theirs too,
        # and only a request for the answer's path carries this one. Strict: no request that another
        # site causes carries it. The page's own request does.
        name, value = f"login-{secrets.token_hex(8)}", secrets.token_urlsafe(32)
        cookie = f"{name}={{}}; Path={answer_path}; Max-Age={{}}; HttpOnly; SameSite=Strict"
        self._cookie = f"{name}={value}".encode()
        # An earlier page at this port may have left a service worker or a cached page, which would
        # receive the response. A worker that does not let this address through gets no reply,
        # because requests of scripts are refused. Else the page's script removes both, because
        # WebKit ignores Clear-Site-Data here, and only then leads on. Cookies are not deleted.
        target = str(httpx.URL(authorization_url))  # ASCII, as a header must be
        self.page = start_page(target, answer_path)
        self.page.headers.update(
            {
                "Location": target,  # for programs without scripts
                "Set-Cookie": cookie.format(value, _MAX_AGE),
                "Clear-Site-Data": '"cache", "storage"',
            }
        )
        self.deletion = {"Set-Cookie": cookie.format("", 0)}

    def is_bound_to(self, cookies: str) -> bool:
        given = [cookie.strip().encode() for cookie in cookies.split(";")]
        return any(hmac.compare_digest(cookie, self._cookie) for cookie in given)


class _Posted(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    fragment: str
    query: str


class CallbackHandler:
    finish: Callable[[str, str], Any]

    def __init__(self, redirect_uri: httpx.URL) -> None:
        self.starts: dict[str, StartAddress] = {}
        # It is done when the wait has an end: a response, a second opening, or a cancellation,
        # after which what comes is thrown away.
        self.result = Future[Any]()
        self.has_response = self.is_visited = False
        self.refused = 0  # responses without the login's state
        self.reason = ""  # why the last response, or browser, was refused
        self.tell: Callable[[str], object] = str  # called with each new reason
        self._told = set[str]()
        self._authority = redirect_uri.netloc.decode("ascii")
        self._path = redirect_uri.raw_path.partition(b"?")[0].decode("ascii")

    def make_start_url(self, authorization_url: str) -> str:
        start = StartAddress(authorization_url, self._path)
        self.starts[start.path] = start
        return f"http://{self._authority}{start.path}"

    def reply(self, request: CallbackRequest, *, of_another_user: bool = False) -> httpx.Response:
        if of_another_user:
            self.refuse(_OTHER_USER)
            return reply_with(403, text="Only the login's own user may call this address.\n")
        host = request.headers.get("host", "")
        if host != self._authority:
            # Another name for this address: DNS rebinding.
            name, ours = host.rpartition(":")[0], self._authority.rpartition(":")[0]
            if is_loopback(name.strip("[]")):
                self.refuse(_OTHER_NAME.format(ours=ours, name=name), request)
            return reply_with(421, text="This address must be called by its own name.\n")
        path = request.target.partition("?")[0]
        if path not in {self._path, *self.starts}:
            return reply_with(404, text="There is nothing here.\n")
        if request.method == "GET":
            start = self.starts.get(path)
            return self._open(start, request) if start else _show_page(request)
        if request.method == "POST" and path == self._path:
            return self._refuse_foreign(request) or self._take_response(request)
        return reply_with(405, {"Allow": "GET, POST"}, text="Only GET and POST.\n")

    def _open(self, start: StartAddress, request: CallbackRequest) -> httpx.Response:
        refused = _refuse_embedded(request)
        # No user goes there from a page of this address. WebKit asks so a second time if it has a
        # worker with preload.
        if refused or request.headers.get("sec-fetch-site") == "same-origin":
            # Perhaps a worker that an earlier page has left asks, and shows the reply as this page:
            # then its script removes the worker. It has no secrets.
            return start_page("", self._path, refused.status_code if refused else 503)
        if self.result.done():
            return reply_with(410, text="This login has ended. Start it again.\n")
        if not start.is_opened:
            start.is_opened = self.is_visited = True
            return start.page
        self.result.set_exception(LoginError(_OPENED_TWICE))
        return reply_with(409, text=f"The login has ended: {_OPENED_TWICE}. Start it again.\n")

    def refuse(self, reason: str, request: CallbackRequest | None = None) -> None:
        """Keep the reason of a refusal, and tell it once; not of what only a script asks for."""
        if request and request.headers.get("sec-fetch-dest", "document") != "document":
            return
        self.reason = reason
        if reason not in self._told and not self.result.done():
            self._told.add(reason)
            self.tell(reason)

    def _refuse_foreign(self, request: CallbackRequest) -> httpx.Response | None:
        get = request.headers.get
        if (get("content-type") or "").startswith(_FORM):
            self.refuse(_BY_FORM, request)
        is_own_origin = get("origin") == f"http://{self._authority}"
        if not is_own_origin or get("sec-fetch-site") not in (None, "same-origin"):
            return reply_with(403, text="Only this address's own page may do that.\n")
        if get("content-type") != "application/json":
            return reply_with(415, text="Only application/json.\n")
        return None

    def _take_response(self, request: CallbackRequest) -> httpx.Response:
        if self.result.done():
            return reply_with(409, json=_TOO_LATE)
        cookies = request.headers.get("cookie", "")
        opened = [start for start in self.starts.values() if start.is_bound_to(cookies)]
        if not opened:
            self.refuse(_NO_COOKIE)
            return reply_with(403, json=_ANOTHER_BROWSER)
        try:
            posted = _Posted.model_validate_json(request.body)
        except ValidationError:
            return reply_with(400, text="Only an object with fragment and query.\n")
        try:
            result = self.finish(posted.fragment, posted.query)
        except StateMismatchError as error:
            self.refused += 1
            self.reason = f"responses of other logins came ({self.refused})"
            shown = _shown("This response belongs to another login", f"{error}.")
            return reply_with(400, json=shown)
        except Exception as error:  # noqa: BLE001 - who waits for the result raises it
            self.result.set_exception(error)
            reason = error if isinstance(error, LoginError) else "something went wrong"
            shown = _shown("You are not logged in", f"The reason: {reason}. {_CLOSE}")
        else:
            self.result.set_result(result)
            shown = _shown("You are logged in", f"{_DONE} {_CLOSE}", good=True)
        self.has_response = True
        return reply_with(200, opened[0].deletion, json=shown)


_FORM: Final = ("application/x-www-form-urlencoded", "multipart/form-data")

_NO_COOKIE: Final = (
    "a response came without the login's cookie, from a browser that blocks cookies or "
    "that did not open the login's address"
)
_BY_FORM: Final = (
    "a form was sent, as by response_mode=form_post, and only a redirect can be read: leave "
    "response_mode out of the authorization URL"
)
_OTHER_NAME: Final = (
    "a browser came to {name} in place of {ours}: log in with a redirect URI that says {name}, or "
    "have {ours} registered"
)
BY_TLS: Final = (
    "a browser came by https: it was told to do so for this name (HSTS); log in with a private "
    "window, or with 127.0.0.1 in the redirect URI in place of localhost"
)
_OTHER_USER: Final = (
    "the browser belongs to another user of this machine: log in as that user, or with --paste "
    "(paste= in Python)"
)
TOO_LONG: Final = (
    "a browser sent more than 256 kB: delete the cookies of this machine's addresses there, or log "
    "in with a private window; a token that long cannot be read"
)


def _shown(heading: str, text: str, *, good: bool = False) -> dict[str, object]:
    return {"good": good, "heading": heading, "text": text}  # as the page's script reads it


_DONE: Final = "The program that started this login has received its response."
_CLOSE: Final = "You can close this tab and return to the program."
_TOO_LATE: Final = _shown(
    "This login has ended",
    "Its program takes no response any more. Close this tab; to log in, start the login again.",
)
_ANOTHER_BROWSER: Final = _shown(
    "The login was started in another browser",
    "Open the address that the program shows in this browser, and log in again.",
)
_OPENED_TWICE: Final = (
    "the address that starts the login was opened twice, and one of the two browsers or programs "
    "may belong to another user"
)


def _show_page(request: CallbackRequest) -> httpx.Response:
    way = (request.headers.get("sec-fetch-dest"), request.headers.get("sec-fetch-site"))
    if way == ("empty", "same-origin"):
        return reply_with(204)  # in place of what a cache may hold of an earlier page
    return _refuse_embedded(request) or page()


def _refuse_embedded(request: CallbackRequest) -> httpx.Response | None:
    """Refuse requests of other pages' frames and scripts, and prefetching."""
    get = request.headers.get
    # Fetch Metadata: browsers that send this header send "document" for a page in a tab.
    if get("sec-fetch-dest") not in (None, "document"):
        return reply_with(403, text="This page cannot be embedded.\n")
    # A worker's preload comes beside the request itself, and would be a second opening.
    is_early = "prefetch" in (get("sec-purpose") or get("purpose") or "")
    if is_early or "service-worker-navigation-preload" in request.headers:
        return reply_with(503, text="Not in advance.\n")
    return None


_COMMON_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def reply_with(
    status: int, headers: Mapping[str, str] | None = None, **body: Any
) -> httpx.Response:
    return httpx.Response(status, headers={**_COMMON_HEADERS, **(headers or {})}, **body)


@cache
def page() -> httpx.Response:
    return _page("callback.html", HEADING="One step is left")


def start_page(target: str, callback: str, status: int = 200) -> httpx.Response:
    """Return the page that leads on to a target, or, without one, says to open it again."""
    words = {"HEADING": "Logging in", "TARGET": target, "CALLBACK": callback}
    return _page("start.html", status, **words)


def _page(name: str, status: int = 200, **texts: str) -> httpx.Response:
    # As text: a browser hashes with "\n", even if the file was checked out with "\r\n".
    frame, body = (
        (files("gateway_sdk.auth._login") / file).read_text(encoding="utf-8")
        for file in ("page.html", name)
    )
    content, _, script = body.partition("<script>\n")
    html = frame.replace("CONTENT", content).replace("SCRIPT", script)
    html = re.sub("|".join(texts), lambda word: escape(texts[word[0]]), html)
    # Allowed are its script, its style and its own origin, and no frame.
    policy = (
        f"default-src 'none'; script-src {_source_of('script', html)}; "
        f"style-src {_source_of('style', html)}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return reply_with(status, {"Content-Security-Policy": policy}, html=html)


def _source_of(element: str, html: str) -> str:
    """Return the hash of an element's text in the form of Content Security Policy Level 3."""
    text = html.partition(f"<{element}>")[2].partition(f"</{element}>")[0]
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
