"""The implicit flow of OAuth 2.0 (RFC 6749, 4.2): authorization URL and authorization response.

No I/O and no clock here. A browser opens the URL, and the caller passes on the response.
"""

import hmac
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote, unquote_plus

import httpx

from gateway_sdk._checks import check_client_id
from gateway_sdk._python import Log, NotPickled, safe_repr
from gateway_sdk._url import difference_of, is_loopback, parse_url
from gateway_sdk._waiting import hiding_frames
from gateway_sdk.auth.token import Token, scope_names
from gateway_sdk.errors import (
    AuthorizationDeniedError,
    ConfigurationError,
    GatewayError,
    MalformedResponseError,
    StateMismatchError,
)

_logger = Log("gateway_sdk.auth")

_OF_EACH_LOGIN: Final = ("client_id", "redirect_uri", "response_type", "scope", "state")

_MAX_LENGTH: Final = 64 * 1024
"""Characters of fragment and query together: tokens of tens of kilobytes exist."""
_MAX_PARAMETERS: Final = 64
_MAX_ERROR_TEXT: Final = 300
"""Characters of the server's error texts that are kept."""

# All but the characters of RFC 6749, appendices A.7 to A.9: a terminal or a page could run others
# as commands.
_NOT_PRINTABLE: Final = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")

# RFC 6749, 4.2.2.1, and the errors that OpenID Connect, 3.1.2.6, adds.
_REASONS: Final = {
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

# Seconds, short enough for every date; int() would accept digits of other alphabets too. Some
# servers write a fraction, a plus or quotation marks. A fraction is left out: the token ends early.
_SECONDS: Final = re.compile(r'("?)([+-]?[0-9]{1,10})(?:\.[0-9]*)?\1')

# What is around a pasted URL: spaces and quotes, and the marks of a terminal's bracketed paste.
_WRAPPERS: Final = re.compile(r"\s|\x1b\[20[01]~|[\"'`<>\u2018-\u201f]")


class LoginAttempt(NotPickled):
    """One login, from `ImplicitFlow.start` to the first response that has its state.

    Attributes:
        url: The authorization URL, for the browser. It holds the state: keep it out of logs.
        redirect_uri: Where the authorization server sends the response.
        is_open: Whether a response is still accepted.
    """

    def __init__(self, url: str, redirect_uri: str, state: str) -> None:
        self.url = url
        self.redirect_uri = redirect_uri
        self.is_open: bool = True
        self._state = state

    def claim(self, states: list[str]) -> None:
        """End this attempt with a response that has its state; StateMismatchError if it has not."""
        if len(states) != 1:
            count = "no state" if not states else "more than one state"
            raise StateMismatchError(f"the response has {count}: it does not belong to this login")
        # JSON can contain lone surrogates, which UTF-8 cannot encode.
        state = states[0].encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(state, self._state.encode()):
            raise StateMismatchError("the response has another state: it belongs to another login")
        if not self.is_open:
            raise StateMismatchError("the response was used before: a login accepts one response")
        self.is_open = False

    @safe_repr
    def __repr__(self) -> str:
        return f"<LoginAttempt ({'open' if self.is_open else 'ended'})>"


class ImplicitFlow:
    """An authorization server's implicit flow, for one client."""

    def __init__(
        self,
        authorization_url: str,
        client_id: str,
        *,
        scope: str | Iterable[str] = (),
        extra: Mapping[str, str] = MappingProxyType({}),
        issuer: str | None = None,
    ) -> None:
        """Check the arguments.

        Args:
            authorization_url: The authorization endpoint; https, except on this machine. Its query
                is kept.
            client_id: The id under which this program is registered there.
            scope: The scope to request. The gateway has no scopes: usually empty.
            extra: More parameters of the authorization URL, such as `prompt`.
            issuer: The server's issuer identifier, if it sends one. A response with another `iss`,
                or without one, is refused (RFC 9207, 2.4).

        Raises:
            ConfigurationError: an argument is missing or invalid; the message names it.
        """
        url = parse_url("authorization_url", authorization_url)
        if url.scheme == "http" and not is_loopback(url.host):
            raise ConfigurationError(
                f"is plain http to {url.host}: the token would be sent unencrypted",
                setting="authorization_url",
            )
        check_client_id(client_id)
        if issuer is not None and not isinstance(issuer, str):
            raise ConfigurationError("must be a string", setting="issuer")
        if not isinstance(extra, Mapping) or not all(
            isinstance(text, str) for text in chain(*extra.items())
        ):
            raise ConfigurationError("must be a mapping of strings to strings", setting="extra")
        # No parameter is sent twice (RFC 6749, 3.1).
        names = [*_OF_EACH_LOGIN, *(name for name, _ in url.params.multi_items()), *extra]
        if len(set(names)) < len(names):
            raise ConfigurationError(
                f"has a parameter twice, or one that each login sets: {', '.join(_OF_EACH_LOGIN)}",
                setting="authorization_url",
                hint="; those of extra count too",
            )
        self.authorization_url = authorization_url
        self.client_id = client_id
        self._scope = scope_names(scope)
        self._extra = dict(extra)
        self._issuer = issuer

    def start(self, redirect_uri: str) -> LoginAttempt:
        """Start a login, with its own unguessable state.

        Args:
            redirect_uri: Where the response goes: exactly as registered, except that a loopback
                address may have any port (RFC 8252, 7.3).

        Raises:
            ConfigurationError: it is no absolute http(s) URL without a fragment.
        """
        # Imported here: only logins need it, and it takes half as long as all other imports.
        from authlib.common.urls import add_params_to_uri  # noqa: PLC0415
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri  # noqa: PLC0415

        parse_url("redirect_uri", redirect_uri)
        state = secrets.token_urlsafe(32)  # 256 bits; RFC 6749, 10.10, requires 128
        url = prepare_grant_uri(
            add_params_to_uri(self.authorization_url, self._extra),
            self.client_id,
            "token",
            redirect_uri=redirect_uri,
            scope=sorted(self._scope),
            state=state,
        )
        return LoginAttempt(url, redirect_uri, state)

    @hiding_frames(GatewayError)
    def finish(self, attempt: LoginAttempt, *, fragment: str, query: str = "", now: float) -> Token:
        """Read the response to a login and return its token.

        Args:
            attempt: The login.
            fragment: The fragment of the URL that the browser was sent to, with or without `#`.
            query: Its query, with or without `?`; some servers put errors or the state there.
            now: Seconds since 1970; the token's lifetime starts here.

        Raises:
            StateMismatchError: the response belongs to another login; this one stays open.
            AuthorizationDeniedError: the user or the authorization server refused.
            MalformedResponseError: the response violates RFC 6749, 4.2.2.
        """
        if fragment.count("&") + query.count("&") >= _MAX_PARAMETERS:
            raise StateMismatchError(f"the response has more than {_MAX_PARAMETERS} parameters")
        own = [*_pairs(attempt.redirect_uri.partition("?")[2])]  # which servers send back
        in_query = [pair for pair in _pairs(query.removeprefix("?")) if pair not in own]
        pairs = [*_pairs(fragment.removeprefix("#")), *in_query]
        attempt.claim([text for name, text in pairs if name == "state"])
        if len(fragment) + len(query) > _MAX_LENGTH:
            raise MalformedResponseError(f"the response is longer than {_MAX_LENGTH} characters")
        # A parameter comes once (RFC 6749, 3.1), and the token not in a query (RFC 6750, 5.3). But
        # a server may write each name of a scope as one, as oauth2orize does with a list.
        scopes = [text for name, text in pairs if name == "scope"]
        pairs = [pair for pair in pairs if pair[0] != "scope"]
        given = dict(pairs)
        if len(given) < len(pairs):
            raise MalformedResponseError("a parameter of the response is present more than once")
        if "access_token" in dict(in_query):
            raise MalformedResponseError(
                "the response has its token in the query, not the fragment"
            )
        return self._read_token(given, scopes, now)

    @hiding_frames(GatewayError)
    def finish_url(self, attempt: LoginAttempt, url: str, *, now: float) -> Token:
        """Read the response from the whole URL that the browser was sent to; see `finish`.

        White space, quotes and <> around it are ignored: pasting adds some. StateMismatchError also
        if it is not the attempt's redirect URI; its text says which part differs.
        """
        if not isinstance(url, str):
            raise ConfigurationError("must be a string", setting="the pasted address")
        address, _, fragment = _WRAPPERS.sub("", url).partition("#")
        target, _, query = address.partition("?")
        if differs := difference_of(target, attempt.redirect_uri.partition("?")[0]):
            raise StateMismatchError(f"the URL is not the redirect URI of this login: {differs}")
        return self.finish(attempt, fragment=fragment, query=query, now=now)

    def _read_token(self, given: dict[str, str], scopes: list[str], now: float) -> Token:
        """Return the token of a response whose state was checked (RFC 6749, 4.2.2)."""
        if self._issuer is not None and given.get("iss") != self._issuer:
            which = "another" if "iss" in given else "no"
            raise MalformedResponseError(f"the response has {which} issuer (iss)")
        if "error" in given:
            raise _denied(given)
        if given.get("token_type", "").strip("\"'").lower() != "bearer":
            raise MalformedResponseError("the token_type in the response is not Bearer")
        lifetime = _lifetime(given)
        ends = None if lifetime is None else now + lifetime
        value = given.get("access_token", "")
        try:
            scope = _granted(scopes) if scopes else self._scope  # named if it is another one
            return Token(value, expires_at=ends, obtained_at=now, scope=scope)
        except ConfigurationError as error:
            raise MalformedResponseError(f"the response is invalid: {error}") from None

    @safe_repr
    def __repr__(self) -> str:
        return f"<ImplicitFlow of {self.client_id!r} at {httpx.URL(self.authorization_url).host}>"


def _printable(text: str) -> str:
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


def _denied(given: dict[str, str]) -> AuthorizationDeniedError:
    code = given["error"]
    known = code in _REASONS
    reason = f"{_REASONS[code]} ({code})" if known else "the authorization server refused the login"
    denied = AuthorizationDeniedError(reason)
    denied.code = _printable(code)
    denied.description = _printable(given.get("error_description", ""))
    denied.uri = _printable(given.get("error_uri", ""))
    return denied


def _granted(scopes: list[str]) -> frozenset[str]:
    """Return the granted scope; empty if it cannot be read."""
    try:
        return scope_names(" ".join(scopes).replace('"', " ").split())  # quotes are in no name
    except ConfigurationError:
        _logger.warning("the scope in the response cannot be read, and is left out")
        return frozenset()


def _lifetime(given: dict[str, str]) -> int | None:
    """Return the token's lifetime in seconds; None if it is missing or not a number."""
    text = given.get("expires_in", "")
    seconds = _SECONDS.fullmatch(text)
    if seconds is None:
        if text:
            told = "expires_in is not a number of seconds: the token is used until it is refused"
            _logger.warning(told)
        return None
    if (lifetime := int(seconds[2])) <= 0:
        raise MalformedResponseError("the access token in the response has already expired")
    return lifetime
