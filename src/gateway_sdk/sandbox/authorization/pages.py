"""What the person sees. No script, nothing from elsewhere, and every value escaped."""

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from urllib.parse import urlsplit

from starlette.responses import HTMLResponse

from gateway_sdk.sandbox.authorization.client import SANDBOX_CLIENT_ID
from gateway_sdk.sandbox.authorization.grant import TOKEN_KINDS
from gateway_sdk.sandbox.authorization.request import AuthorizationRequest

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
    # Read as text: a browser hashes the style with "\n", also where the file has "\r\n".
    return (files("gateway_sdk.sandbox.authorization") / name).read_text(encoding="utf-8")


_STYLE = _asset("style.css")
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()
_LOGIN, _REFUSAL = Template(_asset("login.html")), Template(_asset("refusal.html"))


def login_page(request: AuthorizationRequest, gateway: str) -> HTMLResponse:
    """Show who asks for what, and ask for a decision; *gateway* is the host people know it by."""
    destination = urlsplit(request.address.redirect_uri)
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
    return _page(html, 200, f"'self' {_form_target(request.address.redirect_uri)}")


def refusal_page(status: int, message: str) -> HTMLResponse:
    """Tell the person why there is nothing to decide."""
    return _page(_REFUSAL.substitute(style=_STYLE, message=escape(message)), status, "'none'")


def _page(html: str, status: int, form_action: str) -> HTMLResponse:
    policy = (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action {form_action};"
        " frame-ancestors 'none'; base-uri 'none'"
    )
    return HTMLResponse(html, status, {**HEADERS, "Content-Security-Policy": policy})


def _form_target(redirect_uri: str) -> str:
    # Chromium holds form-action against the redirect after the form as well. A policy cannot name
    # an IPv6 address (CSP 3, section 2.3.1, host-part), so there only the scheme is left to say.
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
