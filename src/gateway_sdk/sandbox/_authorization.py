"""The authorization endpoint of the implicit flow (RFC 6749, sections 3.1 and 4.2.1).

It checks the authorization request, shows the login page, takes the decision and redirects.
"""

import math
import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Literal, NamedTuple
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from gateway_sdk.sandbox._http import media_type, read_text

SANDBOX_CLIENT_ID = "gateway-sdk-sandbox"
AUTHORIZE_PATH = "/authorize"
DEFAULT_ACCOUNT = "ada@example.com"

# RFC 3986, section 2, without "#", because the response is a fragment (RFC 6749, 3.1.2 and 4.2.2).
# Of these characters none ends a header, and none makes a browser read another host, as the
# backslash in "http://127.0.0.1\@evil.example" does.
_CHARACTER = r"[A-Za-z0-9\-._~:/?@!$&'()*+,;=%\[\]]"
# RFC 8252, section 7.3: any port. Only a path or a query may follow: no userinfo.
_LOOPBACK = re.compile(
    rf"http://(127\.0\.0\.1|\[::1\]|localhost)(:(?P<port>[0-9]{{1,5}}))?([/?]{_CHARACTER}*)?"
)
_ABSOLUTE = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-]*:{_CHARACTER}+")
_AUTHORITY = re.compile(r"[A-Za-z0-9.\-:\[\]]*")
MAX_PORT = 65535

# In one query or form.
MAX_PARAMETERS = 32
# Bytes. The form repeats the query, and a browser may encode one of its characters as three.
MAX_QUERY = 8192
MAX_FORM = 4 * MAX_QUERY
FORM = "application/x-www-form-urlencoded"

# RFC 6749, appendix A.5. Other characters would not come back unchanged: browsers rewrite line
# ends in forms.
_STATE = re.compile(r"[\x20-\x7e]*")

Parameters = dict[str, list[str]]
TokenProblem = Literal["is unknown", "expired", "was revoked"]


class TokenRegistry:
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._expiries: dict[str, float] = {}
        self._revoked: set[str] = set()

    def issue(self, token: str, lifetime: float | None = None) -> None:
        self._expiries[token] = math.inf if lifetime is None else self._clock() + lifetime
        self._revoked.discard(token)

    def revoke(self, token: str) -> None:
        self._revoked.add(token)

    def revoke_all(self) -> None:
        self._revoked |= self._expiries.keys()

    def check(self, token: str) -> TokenProblem | None:
        if token in self._revoked:
            return "was revoked"
        if token not in self._expiries:
            return "is unknown"
        return "expired" if self._expiries[token] <= self._clock() else None


class TokenKind(NamedTuple):
    """A kind of token that the user can choose on the login page."""

    label: str
    hint: str
    stated: int | None  # seconds, in the authorization response; None states none
    lifetime: float | None  # seconds, which the gateway applies; None means without end
    revoked: bool = False  # from the start


# By the value of the form's field "token"; the page preselects the first.
TOKEN_KINDS: Mapping[str, TokenKind] = {
    "hour": TokenKind("Lasts an hour", "What a gateway would usually do", 3600, 3600),
    "minute": TokenKind("Lasts a minute", "To watch it being renewed", 60, 60),
    "unstated": TokenKind("No stated lifetime", "It lasts until it is revoked", None, None),
    "expired": TokenKind("Already expired", "Says an hour, is refused as expired", 3600, 0),
    "revoked": TokenKind(
        "Revoked", "Says an hour, is refused as revoked", 3600, 3600, revoked=True
    ),
}


class RedirectUris:
    """The allowed redirect URIs: loopback at any port, and exactly the *registered* ones."""

    def __init__(self, registered: Iterable[str] = ()) -> None:
        self._registered = frozenset(registered)
        for uri in self._registered:
            if not _ABSOLUTE.fullmatch(uri) or not _AUTHORITY.fullmatch(urlsplit(uri).netloc):
                raise ValueError(f"not a redirect URI: {uri!r}")

    def __contains__(self, uri: str) -> bool:
        found = _LOOPBACK.fullmatch(uri)
        is_loopback = found is not None and 0 < int(found["port"] or 80) <= MAX_PORT
        return is_loopback or uri in self._registered


class AuthorizationError(Exception):
    """An error that is sent to the client; *code* is one of RFC 6749, section 4.2.2.1."""

    def __init__(self, code: str, description: str) -> None:
        super().__init__(code)
        self.response = {"error": code, "error_description": description}


class AuthorizationRequest(NamedTuple):
    """Whose redirect URI is allowed; *state* and *scope* are None if the client sent none."""

    redirect_uri: str
    state: str | None
    scope: str | None

    def redirect(self, response: dict[str, str]) -> Response:
        # RFC 6749, section 4.2.2
        if self.state is not None:
            response = {**response, "state": self.state}
        # Every decoder reads "%20" as a space, but only form decoders read "+" as one.
        location = f"{self.redirect_uri}#{urlencode(response, quote_via=quote)}"
        # 303: with 307 a browser would post the form to the client (RFC 9700, section 4.12).
        # Not Starlette's RedirectResponse, which quotes the redirect URI a second time.
        return Response(status_code=303, headers={**HEADERS, "Location": location})


def parse_parameters(text: str) -> Parameters:
    """Parse a query or a form; a parameter without a value is omitted (RFC 6749, 3.1)."""
    try:
        return parse_qs(text, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise HTTPException(400, "The parameters of the request cannot be read.") from None


def single_value(parameters: Parameters, name: str) -> str | None:
    """Return the value of a parameter that is present exactly once, else None."""
    values = parameters.get(name, [])
    return values[0] if len(values) == 1 else None


def read_request(parameters: Parameters, redirect_uris: RedirectUris) -> AuthorizationRequest:
    """Check what no client may be told of, because the address it gives is not checked."""
    # RFC 6749, section 4.2.2.1
    if single_value(parameters, "client_id") != SANDBOX_CLIENT_ID:
        raise HTTPException(400, f"The client_id must be {SANDBOX_CLIENT_ID}.")
    redirect_uri = single_value(parameters, "redirect_uri")
    if redirect_uri is None or redirect_uri not in redirect_uris:
        raise HTTPException(
            400,
            "The redirect_uri must be an http address of this machine, such as"
            " http://127.0.0.1:8000/callback, or one that was registered with the sandbox.",
        )
    state, scope = (single_value(parameters, name) for name in ("state", "scope"))
    return AuthorizationRequest(redirect_uri, state, scope)


def check_request(parameters: Parameters) -> None:
    """Check what the client is told of."""
    invalid = "invalid_request"
    if any(len(values) > 1 for values in parameters.values()):
        raise AuthorizationError(invalid, "a parameter is present more than once")
    if not _STATE.fullmatch(single_value(parameters, "state") or ""):
        raise AuthorizationError(invalid, "the state is not printable ASCII")
    response_type = single_value(parameters, "response_type")
    if response_type is None:
        raise AuthorizationError(invalid, "response_type is missing")
    if response_type != "token":
        raise AuthorizationError("unsupported_response_type", "the response_type must be token")


# RFC 6749, section 10.13, and RFC 9700, section 4.2.4
HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def _asset(name: str) -> str:
    # As text: a browser hashes the style with "\n", even if the file was checked out with "\r\n".
    return (files("gateway_sdk.sandbox") / "_pages" / name).read_text(encoding="utf-8")


_STYLE = _asset("style.css")
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()
# Users' tests rely on the names and ids of the visible fields, and on the id of the error's reason.
_LOGIN, _ERROR = Template(_asset("login.html")), Template(_asset("error.html"))


class AuthorizationEndpoint:
    """GET shows the login page, POST takes the user's decision."""

    def __init__(self, tokens: TokenRegistry, redirect_uris: RedirectUris) -> None:
        self._tokens = tokens
        self._redirect_uris = redirect_uris

    def route(self) -> Route:
        return Route(AUTHORIZE_PATH, self._respond, methods=["GET", "POST"])

    async def _respond(self, request: Request) -> Response:
        try:
            parameters = parse_parameters(await _read(request))
            asked = read_request(parameters, self._redirect_uris)
            try:
                check_request(parameters)
                if request.method != "POST":
                    return login_page(asked, request.headers.get("Host", ""))
                return asked.redirect(self._decided(parameters))
            except AuthorizationError as error:
                return asked.redirect(error.response)
        except HTTPException as error:
            html = _ERROR.substitute(style=_STYLE, message=escape(error.detail))
            return _page(html, error.status_code, "'none'")
        except ClientDisconnect:
            return Response(status_code=400)  # the browser has disconnected: this is not sent

    def _decided(self, parameters: Parameters) -> dict[str, str]:
        decision = single_value(parameters, "decision")
        if decision == "deny":
            raise AuthorizationError("access_denied", "the user denied access")
        if decision != "allow":
            raise HTTPException(400, "The decision must be allow or deny.")
        # Not kept, because no operation reads it.
        if not (single_value(parameters, "account") or "").strip():
            raise HTTPException(400, "The account is missing.")
        kind = TOKEN_KINDS.get(single_value(parameters, "token") or "")
        if kind is None:
            raise HTTPException(400, f"The token must be one of {', '.join(TOKEN_KINDS)}.")
        token = secrets.token_urlsafe(32)
        self._tokens.issue(token, kind.lifetime)
        if kind.revoked:
            self._tokens.revoke(token)
        # RFC 6749, section 4.2.2
        response = {"access_token": token, "token_type": "Bearer"}
        if kind.stated is not None:
            response["expires_in"] = str(kind.stated)
        # Interface: Authentication 2, the set of scopes is empty. A client that asked for a scope
        # must learn that it got another one (RFC 6749, section 3.3).
        if single_value(parameters, "scope") is not None:
            response["scope"] = ""
        return response


async def _read(request: Request) -> str:
    """Return the query or the form, if it may be read."""
    if request.method != "POST":
        query: bytes = request.scope["query_string"]
        if len(query) > MAX_QUERY:
            raise HTTPException(414, f"The address is longer than {MAX_QUERY} bytes.")
        return query.decode("latin-1")
    if media_type(request) != FORM:
        raise HTTPException(415, f"The decision must be sent as {FORM}.")
    # RFC 6749, section 10.12 (CSRF). Origin is of no use: our Referrer-Policy makes it "null".
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        raise HTTPException(403, "The decision must come from the sandbox's own login page.")
    return await read_text(request, MAX_FORM)


def login_page(asked: AuthorizationRequest, gateway: str) -> HTMLResponse:
    """Build the page that asks for a decision; *gateway* is the host that the browser named."""
    destination = urlsplit(asked.redirect_uri)
    fields = {"response_type": "token", "client_id": SANDBOX_CLIENT_ID, **asked._asdict()}
    html = _LOGIN.substitute(
        style=_STYLE,
        path=AUTHORIZE_PATH,
        client=escape(SANDBOX_CLIENT_ID),
        gateway=escape(gateway),
        destination=escape(destination.netloc or f"{destination.scheme}:"),
        hidden="\n".join(
            f'<input type="hidden" name="{name}" value="{escape(value)}">'
            for name, value in fields.items()
            if value is not None
        ),
        account=escape(DEFAULT_ACCOUNT),
        tokens="\n".join(_token_choices()),
    )
    return _page(html, 200, f"'self' {_form_target(asked.redirect_uri)}")


def _page(html: str, status: int, form_action: str) -> HTMLResponse:
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {form_action};"
        " frame-ancestors 'none'; base-uri 'none'"
    )
    return HTMLResponse(html, status, {**HEADERS, "Content-Security-Policy": policy})


def _form_target(redirect_uri: str) -> str:
    # Chromium checks form-action against the redirect after the form too. A policy cannot name an
    # IPv6 address (CSP 3, section 2.3.1, host-part): in that case it names only the scheme.
    scheme, host, *_ = urlsplit(redirect_uri)
    return f"{scheme}:" if not host or "[" in host else f"{scheme}://{host}"


def _token_choices() -> Iterable[str]:
    for position, (value, kind) in enumerate(TOKEN_KINDS.items()):
        yield (
            f'<label class="choice"><input type="radio" name="token" id="token-{value}"'
            f' value="{value}"{"" if position else " checked"}>'
            f"<span>{escape(kind.label)}<small>{escape(kind.hint)}</small></span></label>"
        )
