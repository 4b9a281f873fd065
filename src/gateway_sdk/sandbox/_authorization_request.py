"""The authorization request of the OAuth 2.0 implicit flow (RFC 6749, section 4.2.1)."""

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from starlette.exceptions import HTTPException

SANDBOX_CLIENT_ID = "gateway-sdk-sandbox"

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

# RFC 6749, appendix A.5. Other characters would not come back unchanged: browsers rewrite line
# ends in forms.
_STATE = re.compile(r"[\x20-\x7e]*")

Parameters = dict[str, list[str]]


class RedirectUris:
    """The allowed redirect URIs: loopback at any port, and exactly the *registered* ones.

    Raises:
        ValueError: For a registered URI that is not absolute, or has userinfo or a fragment.
    """

    def __init__(self, registered: Iterable[str] = ()) -> None:
        self._registered = frozenset(registered)
        for uri in self._registered:
            if not _ABSOLUTE.fullmatch(uri) or not _AUTHORITY.fullmatch(urlsplit(uri).netloc):
                raise ValueError(f"not a redirect URI: {uri!r}")

    def __contains__(self, uri: str) -> bool:
        return uri in self._registered or _is_loopback(uri)


def _is_loopback(uri: str) -> bool:
    found = _LOOPBACK.fullmatch(uri)
    return found is not None and 0 < int(found["port"] or 80) <= MAX_PORT


class RedirectTarget(NamedTuple):
    """Where the response goes, and the state that it must repeat, None if the client sent none."""

    redirect_uri: str
    state: str | None

    def location(self, response: dict[str, str]) -> str:
        """Return the redirect URI with *response* and the state in its fragment."""
        # RFC 6749, section 4.2.2
        if self.state is not None:
            response = {**response, "state": self.state}
        # Every decoder reads "%20" as a space, but only form decoders read "+" as one.
        return f"{self.redirect_uri}#{urlencode(response, quote_via=quote)}"


class AuthorizationError(Exception):
    """An error that is sent to the client; *code* is one of RFC 6749, section 4.2.2.1."""

    def __init__(self, target: RedirectTarget, code: str, description: str) -> None:
        super().__init__(code)
        self.location = target.location({"error": code, "error_description": description})


class AuthorizationRequest(NamedTuple):
    """A valid request, to be shown to the user; *scope* is None if the client named none."""

    target: RedirectTarget
    scope: str | None

    def parameters(self) -> dict[str, str]:
        """Return the request as parameters; the form sends them again with the decision."""
        parameters = {
            "response_type": "token",
            "client_id": SANDBOX_CLIENT_ID,
            "redirect_uri": self.target.redirect_uri,
            "state": self.target.state,
            "scope": self.scope,
        }
        return {name: value for name, value in parameters.items() if value is not None}


def parse_parameters(text: str) -> Parameters:
    """Parse a query or a form; a parameter without a value is omitted (RFC 6749, 3.1).

    Raises:
        HTTPException: 400 for more than MAX_PARAMETERS, or for text that is not UTF-8.
    """
    try:
        return parse_qs(text, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise HTTPException(400, "The parameters of the request cannot be read.") from None


def read_request(parameters: Parameters, redirect_uris: RedirectUris) -> AuthorizationRequest:
    """Check a request.

    Raises:
        HTTPException: 400 if client_id or redirect_uri is invalid: the user sees the error.
        AuthorizationError: If anything else is invalid: the client receives the error.
    """
    # RFC 6749, section 4.2.2.1: never redirect to an address that was not checked.
    if single_value(parameters, "client_id") != SANDBOX_CLIENT_ID:
        raise HTTPException(400, f"The client_id must be {SANDBOX_CLIENT_ID}.")
    redirect_uri = single_value(parameters, "redirect_uri")
    if redirect_uri is None or redirect_uri not in redirect_uris:
        raise HTTPException(
            400,
            "The redirect_uri must be an http address of this machine, such as"
            " http://127.0.0.1:8000/callback, or one that was registered with the sandbox.",
        )
    target = RedirectTarget(redirect_uri, single_value(parameters, "state"))
    _check_rest(parameters, target)
    return AuthorizationRequest(target, single_value(parameters, "scope"))


def single_value(parameters: Parameters, name: str) -> str | None:
    """Return the value of a parameter that is present exactly once, else None."""
    values = parameters.get(name, [])
    return values[0] if len(values) == 1 else None


def _check_rest(parameters: Parameters, target: RedirectTarget) -> None:
    invalid = "invalid_request"
    if any(len(values) > 1 for values in parameters.values()):
        raise AuthorizationError(target, invalid, "a parameter is present more than once")
    if not _STATE.fullmatch(target.state or ""):
        raise AuthorizationError(target, invalid, "the state is not printable ASCII")
    response_type = single_value(parameters, "response_type")
    if response_type is None:
        raise AuthorizationError(target, invalid, "response_type is missing")
    if response_type != "token":
        raise AuthorizationError(
            target, "unsupported_response_type", "the response_type must be token"
        )
