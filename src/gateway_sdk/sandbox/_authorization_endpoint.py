"""The authorization endpoint (RFC 6749, section 3.1): login page, decision, redirect."""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from gateway_sdk.sandbox._access_tokens import TOKEN_KINDS, TokenRegistry
from gateway_sdk.sandbox._authorization_request import (
    SANDBOX_CLIENT_ID,
    AuthorizationError,
    AuthorizationRequest,
    Parameters,
    RedirectUris,
    parse_parameters,
    read_request,
    single_value,
)
from gateway_sdk.sandbox._http import read_text

AUTHORIZE_PATH = "/authorize"
DEFAULT_ACCOUNT = "ada@example.com"

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
_LOGIN, _ERROR = Template(_asset("login.html")), Template(_asset("error.html"))

# Bytes. The form repeats the query, and a browser may encode one of its characters as three.
MAX_QUERY = 8192
MAX_FORM = 4 * MAX_QUERY
FORM = "application/x-www-form-urlencoded"


class AuthorizationEndpoint:
    """GET shows the login page, POST takes the user's decision.

    The page's form repeats the request's parameters as hidden fields. Users' tests rely on the
    names and ids of the others: the text "account" (#account), which is required and not kept,
    because no operation reads it; the radio buttons "token", a key of TOKEN_KINDS (#token-hour,
    #token-minute, #token-unstated, #token-expired, #token-revoked); the buttons "decision", allow
    or deny (#allow, #deny). The error page gives its reason in #reason.
    """

    def __init__(self, tokens: TokenRegistry, redirect_uris: RedirectUris) -> None:
        self._tokens = tokens
        self._redirect_uris = redirect_uris

    def route(self) -> Route:
        """Return the route of this endpoint."""
        return Route(AUTHORIZE_PATH, self._respond, methods=["GET", "POST"])

    async def _respond(self, request: Request) -> Response:
        try:
            if request.method == "POST":
                return await self._take_decision(request)
            return self._show_login_page(request)
        except HTTPException as error:
            return error_page(error.status_code, error.detail)
        except AuthorizationError as error:
            return _redirect(error.location)
        except ClientDisconnect:
            return Response(status_code=400)  # the browser has disconnected: this is not sent

    def _show_login_page(self, request: Request) -> Response:
        query: bytes = request.scope["query_string"]
        if len(query) > MAX_QUERY:
            raise HTTPException(414, f"The address is longer than {MAX_QUERY} bytes.")
        parameters = parse_parameters(query.decode("latin-1"))
        authorization = read_request(parameters, self._redirect_uris)
        return login_page(authorization, request.headers.get("Host", ""))

    async def _take_decision(self, request: Request) -> Response:
        _check_form_origin(request)
        parameters = parse_parameters(await read_text(request, MAX_FORM))
        authorization = read_request(parameters, self._redirect_uris)
        target = authorization.target
        match single_value(parameters, "decision"):
            case "allow":
                return _redirect(target.location(self._issue_token(parameters, authorization)))
            case "deny":
                raise AuthorizationError(target, "access_denied", "the user denied access")
            case _:
                raise HTTPException(400, "The decision must be allow or deny.")

    def _issue_token(
        self, parameters: Parameters, authorization: AuthorizationRequest
    ) -> dict[str, str]:
        if not (single_value(parameters, "account") or "").strip():
            raise HTTPException(400, "The account is missing.")
        kind = TOKEN_KINDS.get(single_value(parameters, "token") or "")
        if kind is None:
            raise HTTPException(400, f"The token must be one of {', '.join(TOKEN_KINDS)}.")
        response = kind.issue(self._tokens)
        # Interface: Authentication 2, the set of scopes is empty. A client that asked for a scope
        # must be told that it got another one (RFC 6749, section 3.3).
        return response if authorization.scope is None else {**response, "scope": ""}


def _check_form_origin(request: Request) -> None:
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != FORM:
        raise HTTPException(415, f"The decision must be sent as {FORM}.")
    # RFC 6749, section 10.12 (CSRF). Origin is of no use: our Referrer-Policy makes it "null".
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        raise HTTPException(403, "The decision must come from the sandbox's own login page.")


def _redirect(location: str) -> Response:
    # 303: with 307 a browser would post the form to the client (RFC 9700, section 4.12).
    # Not Starlette's RedirectResponse, which quotes the redirect URI a second time.
    return Response(status_code=303, headers={**HEADERS, "Location": location})


def login_page(request: AuthorizationRequest, gateway: str) -> HTMLResponse:
    """Build the page that asks for a decision; *gateway* is the host that the browser named."""
    destination = urlsplit(request.target.redirect_uri)
    html = _LOGIN.substitute(
        style=_STYLE,
        path=AUTHORIZE_PATH,
        client=escape(SANDBOX_CLIENT_ID),
        gateway=escape(gateway),
        destination=escape(destination.netloc or f"{destination.scheme}:"),
        hidden="\n".join(_hidden_fields(request)),
        account=escape(DEFAULT_ACCOUNT),
        tokens="\n".join(_token_choices()),
    )
    return _page(html, 200, f"'self' {_form_target(request.target.redirect_uri)}")


def error_page(status: int, message: str) -> HTMLResponse:
    """Build the page that tells the user why no login is possible."""
    return _page(_ERROR.substitute(style=_STYLE, message=escape(message)), status, "'none'")


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


def _hidden_fields(request: AuthorizationRequest) -> Iterable[str]:
    for name, value in request.parameters().items():
        yield f'<input type="hidden" name="{name}" value="{escape(value)}">'


def _token_choices() -> Iterable[str]:
    for position, (value, kind) in enumerate(TOKEN_KINDS.items()):
        yield (
            f'<label class="choice"><input type="radio" name="token" id="token-{value}"'
            f' value="{value}"{"" if position else " checked"}>'
            f"<span>{escape(kind.label)}<small>{escape(kind.hint)}</small></span></label>"
        )
