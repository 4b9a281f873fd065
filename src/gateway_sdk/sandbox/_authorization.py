"""The authorization endpoint of the implicit flow (RFC 6749, sections 3.1 and 4.2.1), and its user.

It checks the authorization request, shows the login page, takes the decision and redirects. It
protects nothing: everyone who can open the page can have a token.
"""

import http.client
import json
import logging
import math
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qsl, quote, urlencode, urljoin, urlsplit
from urllib.request import (
    HTTPCookieProcessor,
    HTTPRedirectHandler,
    OpenerDirector,
    ProxyHandler,
    Request as UrlRequest,
    build_opener,
)

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response

SANDBOX_CLIENT_ID = "gateway-sdk-sandbox"
AUTHORIZE_PATH = "/authorize"

# RFC 3986, section 2, without "#", because the response is a fragment (RFC 6749, 3.1.2 and 4.2.2).
# Of these characters none ends a header, and none makes a browser read another host, as the
# backslash in "http://127.0.0.1\@evil.example" does.
_CHARACTER = r"[A-Za-z0-9\-._~:/?@!$&'()*+,;=%\[\]]"
# RFC 8252, section 7.3: any port. Only a path or a query may follow: no userinfo.
LOOPBACK = re.compile(
    rf"http://(127\.0\.0\.1|\[::1\]|localhost)(:[0-9]{{1,5}})?([/?]{_CHARACTER}*)?"
)
_ABSOLUTE = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:{_CHARACTER}+")

# RFC 6749, section 10.13, and RFC 9700, section 4.2.4
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline';"
    " frame-ancestors 'none'; base-uri 'none'",
}

# By the value of the form's field "token": the seconds that the authorization response states, and
# those that the gateway applies; None states none, and is without end.
TOKEN_KINDS: Mapping[str, tuple[int | None, int | None]] = {
    "hour": (3600, 3600),
    "minute": (60, 60),
    "unstated": (None, None),
    "expired": (3600, 0),
    "revoked": (3600, 3600),
}


class Tokens:
    _REVOKED = -math.inf

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends: dict[str, float] = {}

    def issue(self, token: str, lifetime: float | None = None) -> None:
        self._ends[token] = math.inf if lifetime is None else self._clock() + lifetime

    def revoke(self, *tokens: str) -> None:
        self._ends |= dict.fromkeys(tokens, self._REVOKED)

    def revoke_all(self) -> None:
        self.revoke(*self._ends)

    def check_bearer(self, request: Request) -> None:
        # Interface: Authentication 1. The challenges are those of RFC 6750, section 3.
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            challenge = {"WWW-Authenticate": "Bearer"}
            raise HTTPException(401, "the header Authorization: Bearer is required", challenge)
        end = self._ends.get(token.strip())
        if end is not None and end > self._clock():
            return
        problem = {None: "is unknown", self._REVOKED: "was revoked"}.get(end, "expired")
        error = f'error="invalid_token", error_description="The access token {problem}"'
        challenge = {"WWW-Authenticate": f"Bearer {error}"}
        raise HTTPException(401, f"the access token {problem}", challenge)


class AuthorizationEndpoint:
    """GET shows the login page, POST takes the user's decision."""

    def __init__(self, tokens: Tokens, redirect_uris: Iterable[str]) -> None:
        self._tokens = tokens
        self._registered = frozenset(redirect_uris)
        for uri in self._registered:
            if not _ABSOLUTE.fullmatch(uri) or not urlsplit(uri).scheme:  # refuses a wrong host
                raise ValueError(f"not a redirect URI: {uri!r}")

    async def respond(self, request: Request) -> Response:
        is_post = request.method == "POST"
        try:
            sent = await request.body() if is_post else request.scope["query_string"]
            asked = self._read(sent.decode("latin-1"))
            response_type = asked.get("response_type")
            if response_type is None:
                answer = _error("invalid_request", "response_type is missing")
            elif response_type != "token":
                answer = _error("unsupported_response_type", "the response_type must be token")
            elif not is_post:
                return _login_page(asked, request.headers.get("Host", ""))
            elif asked.get("decision") == "deny":
                answer = _error("access_denied", "the user denied access")
            else:
                answer = self._issue(asked)
            return _redirect(asked, answer)
        except HTTPException as error:
            return _page("error.html", error.status_code, message=error.detail)
        except ClientDisconnect:
            return Response(status_code=400)  # the browser has disconnected: this is not sent

    def _read(self, parameters: str) -> dict[str, str]:
        """Refuse what no client may be told of, because the address it gives is not checked."""
        # RFC 6749, section 3.1: what has no value is left out; section 4.2.2.1
        try:
            pairs = parse_qsl(parameters, errors="strict")
        except ValueError:  # else the state would not come back as it was sent
            raise HTTPException(400, "The parameters of the request are not UTF-8.") from None
        asked = dict(pairs)
        if len(asked) < len(pairs):
            raise HTTPException(400, "A parameter is present more than once.")
        if asked.get("client_id") != SANDBOX_CLIENT_ID:
            raise HTTPException(400, f"The client_id must be {SANDBOX_CLIENT_ID}.")
        uri = asked.get("redirect_uri", "")
        if not LOOPBACK.fullmatch(uri) and uri not in self._registered:
            raise HTTPException(
                400,
                "The redirect_uri must be an http address of this machine, such as"
                " http://127.0.0.1:8000/callback, or one that was registered with the sandbox.",
            )
        return asked

    def _issue(self, asked: Mapping[str, str]) -> dict[str, str]:
        if asked.get("decision") != "allow":
            raise HTTPException(400, "The decision must be allow or deny.")
        # Not kept, because no operation reads it.
        if not asked.get("account", "").strip():
            raise HTTPException(400, "The account is missing.")
        kind = asked.get("token", "")
        if kind not in TOKEN_KINDS:
            raise HTTPException(400, f"The token must be one of {', '.join(TOKEN_KINDS)}.")
        stated, lifetime = TOKEN_KINDS[kind]
        token = secrets.token_urlsafe(32)
        self._tokens.issue(token, lifetime)
        if kind == "revoked":
            self._tokens.revoke(token)
        # RFC 6749, section 4.2.2
        response = {"access_token": token, "token_type": "Bearer"}
        if stated is not None:
            response["expires_in"] = str(stated)
        # Interface: Authentication 2, the set of scopes is empty. A client that asked for a scope
        # must learn that it got another one (RFC 6749, section 3.3).
        if "scope" in asked:
            response["scope"] = ""
        return response


def _error(code: str, description: str) -> dict[str, str]:
    # RFC 6749, section 4.2.2.1
    return {"error": code, "error_description": description}


def _redirect(asked: Mapping[str, str], response: dict[str, str]) -> Response:
    # RFC 6749, section 4.2.2
    if "state" in asked:
        response["state"] = asked["state"]
    # Every decoder reads "%20" as a space, but only form decoders read "+" as one.
    location = f"{asked['redirect_uri']}#{urlencode(response, quote_via=quote)}"
    # 303: with 307 a browser would post the form to the client (RFC 9700, section 4.12).
    # Not Starlette's RedirectResponse, which quotes the redirect URI a second time.
    return Response(status_code=303, headers={**HEADERS, "Location": location})


def _login_page(asked: Mapping[str, str], gateway: str) -> HTMLResponse:
    destination = urlsplit(asked["redirect_uri"])
    return _page(
        "login.html",
        200,
        gateway=gateway,  # as the browser named it
        destination=destination.netloc or f"{destination.scheme}:",
        **{name: asked.get(name, "") for name in ("client_id", "redirect_uri", "state", "scope")},
    )


def _page(name: str, status: int, **texts: str) -> HTMLResponse:
    # Users' tests rely on the names and ids of the visible fields, and on the id of the reason.
    html = Template(_asset(name)).substitute(
        {each: escape(text) for each, text in texts.items()}, style=_asset("style.css")
    )
    return HTMLResponse(html, status, HEADERS)


def _asset(name: str) -> str:
    return (files("gateway_sdk.sandbox") / "_pages" / name).read_text(encoding="utf-8")


_logger = logging.getLogger("gateway_sdk.sandbox")


_Token: TypeAlias = Literal["hour", "minute", "unstated", "expired", "revoked"]
_Decision: TypeAlias = Literal["allow", "deny"]
_CHOICES: Final = {"token": _Token, "decision": _Decision}


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
    token: _Token = "hour"  # noqa: S105 - a kind of token
    decision: _Decision = "allow"
    timeout: float = 10.0

    def __post_init__(self) -> None:
        # The server would answer with a page for people, and the login wait for its time-out.
        for name, hint in _CHOICES.items():
            if getattr(self, name) not in (choices := get_args(hint)):
                raise ValueError(f"{name} must be one of {', '.join(choices)}")

    def __call__(self, url: str) -> bool:
        """Return whether the client took the response; if not, the log says why."""
        opener = make_opener()
        try:
            self._hand_over(self._log_in(url, opener), opener)
        except (http.client.HTTPException, OSError, ValueError) as error:
            # Messages may quote a token, so they are not logged.
            cause = error.reason if type(error) is URLError else error
            reason = str(error) if isinstance(error, _VisitError) else type(cause).__name__
            _logger.warning("the visitor gave up: %s", reason)
            return False
        return True

    def _log_in(self, url: str, opener: OpenerDirector) -> str:
        """Return the address of the answer, which is not visited yet."""
        answer = self._open("the login page", opener, url)
        if "#" not in answer:  # else it is an error for the client, without a login page
            # The form of the page sends what is in its address, and what the user enters.
            page, _, query = answer.partition("?")
            entered = {"account": self.account, "token": self.token, "decision": self.decision}
            form = urlencode(dict(parse_qsl(query)) | entered)
            answer = self._open("the decision", opener, page, form.encode())
        if "#" not in answer:
            raise _VisitError("the decision was answered with a page")
        return answer

    def _hand_over(self, location: str, opener: OpenerDirector) -> None:
        self._open("the redirect URI", opener, location, follows=0)
        scheme, host, path, query, fragment = urlsplit(location)
        body = json.dumps({"fragment": fragment, "query": query}).encode()
        headers = {"Content-Type": "application/json", "Origin": f"{scheme}://{host}"}
        place = f"{scheme}://{host}{path}"
        self._open("the posted response", opener, place, body, headers, follows=0)

    def _open(
        self, what: str, opener: OpenerDirector, url: str, *content: Any, follows: int = 9
    ) -> str:
        """Send body and headers of *content*, if any; return the address that redirects led to."""
        if urlsplit(url).scheme != "http":
            raise _VisitError("only http URLs are supported")
        try:
            with opener.open(UrlRequest(url, *content), timeout=self.timeout) as reply:  # noqa: S310 - http
                reply.read()
                # The start address of a login leads on by a script, and by this for others.
                leads_to = reply.headers.get("Location")
        except HTTPError as error:
            error.close()
            leads_to = error.headers.get("Location") if follows else None
            if leads_to is None:
                raise _VisitError(f"{what} was answered with status {error.code}") from None
        if leads_to is None or "#" in leads_to:
            return leads_to or url
        return self._open(what, opener, urljoin(url, leads_to), follows=follows - 1)


def make_opener() -> OpenerDirector:
    """Make what opens the addresses of one visit, with its cookies."""
    # Not httpx: at DEBUG it logs the header Location, which holds the token.
    return build_opener(ProxyHandler({}), _NoRedirects, HTTPCookieProcessor())


class _VisitError(ValueError):
    """Its message quotes no token."""


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Leave the redirect as an HTTPError: where it leads to may hold the token."""
