"""The token in an answer that belongs to us, or the reason why there is none. Pure."""

import logging
import re
from types import MappingProxyType
from typing import Final

from gateway_sdk.auth.answer import Answer, printable
from gateway_sdk.auth.token import Token, problem_of, scope_names
from gateway_sdk.errors import (
    AuthorizationDeniedError,
    ConfigurationError,
    MalformedResponseError,
)

_logger = logging.getLogger(__name__)

# RFC 6749, 4.2.2.1, and what OpenID Connect, 3.1.2.6, adds for logins.
_REASONS: Final = MappingProxyType(
    {
        "access_denied": "the login was refused",
        "account_selection_required": "an account has to be chosen first",
        "consent_required": "somebody has to agree first",
        "interaction_required": "somebody has to be asked first",
        "invalid_request": "the authorization server does not accept the request",
        "invalid_scope": "the authorization server does not know the scope",
        "login_required": "somebody has to log in first",
        "server_error": "the authorization server failed",
        "temporarily_unavailable": "the authorization server is too busy: try again later",
        "unauthorized_client": "this client may not use the implicit flow",
        "unsupported_response_type": "the authorization server does not offer the implicit flow",
    }
)

# Seconds, of a length that no date outgrows; int() would take other alphabets' digits too.
_SECONDS: Final = re.compile(r"[0-9]{1,10}")


def read_grant(answer: Answer, *, scope: frozenset[str], issuer: str | None, now: float) -> Token:
    """Return the token of an answer whose state is ours.

    Args:
        answer: The answer.
        scope: What was asked for; granted, if the answer does not say otherwise.
        issuer: The name that an `iss` must have; None for any.
        now: Seconds since 1970.

    Raises:
        AuthorizationDeniedError: it is an error, whatever else it holds.
        MalformedResponseError: it breaks RFC 6749, 4.2.2.
    """
    given = answer.single()
    if issuer is not None and given.get("iss", issuer) != issuer:
        raise MalformedResponseError("the answer comes from another authorization server (iss)")
    if "error" in given:
        raise _denied(given)
    value = _token_of(given)
    life = _life_of(given)
    granted = _scope_of(given, scope)
    ends = None if life is None else now + life
    return Token(value, expires_at=ends, obtained_at=now, scope=granted)


def _denied(given: dict[str, str]) -> AuthorizationDeniedError:
    code = given["error"]
    known = code in _REASONS
    reason = f"{_REASONS[code]} ({code})" if known else "the authorization server said no"
    return AuthorizationDeniedError(
        reason,
        code=printable(code),
        description=printable(given.get("error_description", "")),
        uri=printable(given.get("error_uri", "")),
    )


def _token_of(given: dict[str, str]) -> str:
    value = given.get("access_token")
    if value is None:
        raise MalformedResponseError("the answer has no access token")
    if problem_of(value):
        raise MalformedResponseError("the access token in the answer is none (RFC 6750, 2.1)")
    if given.get("token_type", "").lower() != "bearer":
        raise MalformedResponseError("the answer's token_type is not Bearer")
    return value


def _life_of(given: dict[str, str]) -> int | None:
    """Return the seconds that the token lasts; None if that is not said, or not in seconds."""
    text = given.get("expires_in", "")
    if not text:
        return None
    if not _SECONDS.fullmatch(text):
        _logger.warning("expires_in is no number of seconds: the token is used until it is refused")
        return None
    if int(text) == 0:
        raise MalformedResponseError("the access token in the answer has expired already")
    return int(text)


def _scope_of(given: dict[str, str], asked: frozenset[str]) -> frozenset[str]:
    """Return what was granted (RFC 6749, 3.3: it is said only where it differs)."""
    try:
        return scope_names(given["scope"]) if "scope" in given else asked
    except ConfigurationError:
        raise MalformedResponseError("the answer's scope is none (RFC 6749, 3.3)") from None
