"""The implicit flow of OAuth 2.0 (RFC 6749, 4.2): authorization URL and authorization response.

No I/O and no clock here. A browser opens the URL, and the caller passes on the response.
"""

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import httpx

from gateway_sdk._python import NotPickled, safe_repr
from gateway_sdk._url import is_loopback, parse_url
from gateway_sdk.auth._authorization_response import AuthorizationResponse, read_token
from gateway_sdk.auth.token import Token, scope_names
from gateway_sdk.errors import ConfigurationError, StateMismatchError

_REQUEST_PARAMETERS: Final = frozenset(
    {"response_type", "client_id", "redirect_uri", "scope", "state"}
)
# What a response may have (RFC 6749, 4.2.2; RFC 9207), and never twice: the query of a redirect URI
# comes back with the response.
_ERROR_PARAMETERS: Final = {"error", "error_description", "error_uri"}
_RESPONSE_PARAMETERS: Final = _ERROR_PARAMETERS | (
    {"access_token", "expires_in", "iss", "scope", "state", "token_type"}
)

# RFC 6749, appendix A.1: VSCHAR.
_CLIENT_ID: Final = re.compile(r"[\x20-\x7e]+")


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
        _check_authorization_url(authorization_url)
        if not isinstance(client_id, str) or not _CLIENT_ID.fullmatch(client_id):
            raise ConfigurationError(
                "must be a string of printable ASCII characters", setting="client_id"
            )
        if issuer is not None and not isinstance(issuer, str):
            raise ConfigurationError("must be a string", setting="issuer")
        _check_extra(authorization_url, extra)
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
            ConfigurationError: it is no absolute http(s) URL without a fragment, or sets a
                parameter of the response.
        """
        # Imported here: only logins need it, and it takes half as long as all other imports.
        from authlib.common.urls import add_params_to_uri  # noqa: PLC0415
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri  # noqa: PLC0415

        url = parse_url("redirect_uri", redirect_uri)
        if "#" in redirect_uri:
            raise ConfigurationError(
                "has a fragment: the response needs that place", setting="redirect_uri"
            )
        if taken := sorted(_RESPONSE_PARAMETERS & set(url.params)):
            raise ConfigurationError(
                f"must not set {', '.join(taken)}: the response does", setting="redirect_uri"
            )
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

    def finish(self, attempt: LoginAttempt, *, fragment: str, query: str = "", now: float) -> Token:
        """Read the response to a login and return its token.

        Args:
            attempt: The login.
            fragment: The fragment of the URL that the browser was sent to, without `#`.
            query: Its query, without `?`; some servers put errors or the state there.
            now: Seconds since 1970; the token's lifetime starts here.

        Raises:
            StateMismatchError: the response belongs to another login; this one stays open.
            AuthorizationDeniedError: the user or the authorization server refused.
            MalformedResponseError: the response violates RFC 6749, 4.2.2.
        """
        response = AuthorizationResponse(fragment, query)
        attempt.claim(response.values("state"))
        return read_token(response, scope=self._scope, issuer=self._issuer, now=now)

    def finish_url(self, attempt: LoginAttempt, url: str, *, now: float) -> Token:
        """Read the response from the whole URL that the browser was sent to; see `finish`.

        White space in it is ignored: pasting from a terminal adds some. StateMismatchError also if
        it is not the attempt's redirect URI.
        """
        address, _, fragment = "".join(url.split()).partition("#")
        target, _, query = address.partition("?")
        if _comparable(target) != _comparable(attempt.redirect_uri.partition("?")[0]):
            raise StateMismatchError("the URL is not the redirect URI of this login")
        return self.finish(attempt, fragment=fragment, query=query, now=now)

    @safe_repr
    def __repr__(self) -> str:
        return f"<ImplicitFlow of {self.client_id!r} at {httpx.URL(self.authorization_url).host}>"


def _check_authorization_url(authorization_url: str) -> None:
    url = parse_url("authorization_url", authorization_url)
    if "#" in authorization_url:
        raise ConfigurationError("has a fragment: leave it out", setting="authorization_url")
    if url.scheme == "http" and not is_loopback(url.host):
        raise ConfigurationError(
            f"is plain http to {url.host}: the token would be sent unencrypted",
            setting="authorization_url",
        )


def _check_extra(authorization_url: str, extra: Mapping[str, str]) -> None:
    """Check that no parameter is sent twice (RFC 6749, 3.1)."""
    # A lone surrogate cannot be encoded.
    if not isinstance(extra, Mapping) or not all(
        isinstance(text, str) and text.encode("utf-8", "ignore").decode() == text
        for pair in extra.items()
        for text in pair
    ):
        raise ConfigurationError("must be a mapping of strings to strings", setting="extra")
    own = [name for name, _ in httpx.URL(authorization_url).params.multi_items()]
    names = [*own, *extra]
    if len(set(names)) < len(names):
        raise ConfigurationError(
            "has a parameter that is present twice",
            setting="authorization_url",
            hint=", with extra",
        )
    if taken := sorted(_REQUEST_PARAMETERS & set(names)):
        raise ConfigurationError(
            f"must not set {', '.join(taken)}: each login sets it",
            setting="authorization_url" if _REQUEST_PARAMETERS & set(own) else "extra",
        )


def _comparable(url: str) -> tuple[object, ...] | None:
    """Return the parts of a URL, normalized as browsers do; None if it is invalid."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return None
    return parsed.scheme, parsed.userinfo, parsed.raw_host, parsed.port, parsed.raw_path
