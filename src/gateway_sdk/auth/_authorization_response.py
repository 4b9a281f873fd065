"""The authorization response of the implicit flow (RFC 6749, 4.2.2). Pure: no I/O, no clock."""

import logging
import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote, unquote_plus

from gateway_sdk.auth.token import Token, problem_of, scope_names
from gateway_sdk.errors import (
    AuthorizationDeniedError,
    ConfigurationError,
    MalformedResponseError,
    StateMismatchError,
)

_logger = logging.getLogger("gateway_sdk.auth")

MAX_LENGTH: Final = 64 * 1024
"""Characters of fragment and query together: tokens of tens of kilobytes exist."""

MAX_PARAMETERS: Final = 64

_MAX_ERROR_TEXT: Final = 300
"""Characters of the server's error texts that are kept."""

# All but the characters of RFC 6749, appendices A.7 to A.9: a terminal or a page could run others
# as commands.
_NOT_PRINTABLE: Final = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")

# RFC 6749, 4.2.2.1, and the errors that OpenID Connect, 3.1.2.6, adds.
_REASONS: Final = MappingProxyType(
    {
        "access_denied": "the login was refused",
        "account_selection_required": "the user must choose an account first",
        "consent_required": "the user must consent first",
        "interaction_required": "the user must answer a question first",
        "invalid_request": "the authorization server does not accept the request",
        "invalid_scope": "the authorization server does not know the scope",
        "login_required": "the user must log in first",
        "server_error": "the authorization server failed",
        "temporarily_unavailable": "the authorization server is too busy: try again later",
        "unauthorized_client": "this client may not use the implicit flow",
        "unsupported_response_type": "the authorization server does not offer the implicit flow",
    }
)

# Seconds, short enough for every date; int() would accept digits of other alphabets too. Some
# servers write a fraction, a plus or quotation marks. A fraction is left out: the token ends early.
_SECONDS: Final = re.compile(r'("?)\+?([0-9]{1,10})(?:\.[0-9]*)?\1')
_NO_SECONDS: Final = re.compile(r'("?)(?:\+?0{1,10}|-[0-9]+)(?:\.[0-9]*)?\1')


class AuthorizationResponse:
    """The parameters as they were received; until `parameters` is called, names may repeat."""

    def __init__(self, fragment: str, query: str) -> None:
        if fragment.count("&") + query.count("&") >= MAX_PARAMETERS:
            raise StateMismatchError(f"the response has more than {MAX_PARAMETERS} parameters")
        self._query = list(_pairs(query))
        self._pairs = [*_pairs(fragment), *self._query]
        self.length = len(fragment) + len(query)

    def values(self, name: str) -> list[str]:
        return [text for key, text in self._pairs if key == name]

    def parameters(self) -> dict[str, str]:
        # A parameter comes once (RFC 6749, 3.1), and the token not in a query (RFC 6750, 5.3).
        found = dict(self._pairs)
        if len(found) < len(self._pairs):
            raise MalformedResponseError("a parameter of the response is present more than once")
        if any(name == "access_token" for name, _ in self._query):
            raise MalformedResponseError(
                "the response has its token in the query, not the fragment"
            )
        return found


def printable(text: str) -> str:
    """Return a server's text on one line, without characters that act on a terminal or a page."""
    shown = _NOT_PRINTABLE.sub("?", text)
    return shown if len(shown) <= _MAX_ERROR_TEXT else f"{shown[:_MAX_ERROR_TEXT]}..."


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for piece in text.split("&"):
        name, equals, value = piece.partition("=")
        if equals:
            # In a token a plus is a plus, encoded or not: it can have one, and never a space.
            decode = unquote if name == "access_token" else unquote_plus
            yield unquote_plus(name), decode(value)


def read_token(
    response: AuthorizationResponse, *, scope: frozenset[str], issuer: str | None, now: float
) -> Token:
    """Return the token of a response whose state was checked (RFC 6749, 4.2.2)."""
    if response.length > MAX_LENGTH:
        raise MalformedResponseError(f"the response is longer than {MAX_LENGTH} characters")
    given = response.parameters()
    if issuer is not None and given.get("iss") != issuer:
        problem = "comes from another authorization server" if "iss" in given else "has no issuer"
        raise MalformedResponseError(f"the response {problem} (iss)")
    if "error" in given:
        raise _denied(given)
    value = _token_value(given)
    lifetime = _lifetime(given)
    granted = _granted_scope(given, scope)
    ends = None if lifetime is None else now + lifetime
    return Token(value, expires_at=ends, obtained_at=now, scope=granted)


def _denied(given: dict[str, str]) -> AuthorizationDeniedError:
    code = given["error"]
    known = code in _REASONS
    reason = f"{_REASONS[code]} ({code})" if known else "the authorization server refused the login"
    return AuthorizationDeniedError(
        reason,
        code=printable(code),
        description=printable(given.get("error_description", "")),
        uri=printable(given.get("error_uri", "")),
    )


def _token_value(given: dict[str, str]) -> str:
    value = given.get("access_token")
    if value is None:
        raise MalformedResponseError("the response has no access token")
    if problem_of(value):
        raise MalformedResponseError("the access token in the response is invalid (RFC 6750, 2.1)")
    if given.get("token_type", "").lower() != "bearer":
        raise MalformedResponseError("the token_type in the response is not Bearer")
    return value


def _lifetime(given: dict[str, str]) -> int | None:
    """Return the token's lifetime in seconds; None if it is missing or not a number."""
    text = given.get("expires_in", "")
    if not text:
        return None
    if _NO_SECONDS.fullmatch(text):
        raise MalformedResponseError("the access token in the response has already expired")
    seconds = _SECONDS.fullmatch(text)
    if seconds is None:
        _logger.warning(
            "expires_in is not a number of seconds: the token is used until it is refused"
        )
        return None
    return int(seconds[2])


def _granted_scope(given: dict[str, str], asked: frozenset[str]) -> frozenset[str]:
    """Return the granted scope (RFC 6749, 3.3: the response names it only if it differs)."""
    try:
        return scope_names(given["scope"]) if "scope" in given else asked
    except ConfigurationError:
        raise MalformedResponseError(
            "the scope in the response is invalid (RFC 6749, 3.3)"
        ) from None
