"""The implicit flow of OAuth 2.0 (RFC 6749, 4.2): the address to log in at, the answer from there.

No I/O and no clock: a browser goes to the address, and something brings its answer back.
"""

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NoReturn

import httpx

from gateway_sdk._config import is_loopback, parse_url
from gateway_sdk._repr import safe_repr
from gateway_sdk.auth.answer import Answer
from gateway_sdk.auth.grant import read_grant
from gateway_sdk.auth.token import Token, scope_names
from gateway_sdk.errors import ConfigurationError, StateMismatchError

_OURS: Final = frozenset({"response_type", "client_id", "redirect_uri", "scope", "state"})
# What an answer holds once (RFC 6749, 4.2.2): a redirect URI with it could never be answered.
_THEIRS: Final = frozenset({"access_token", "error", "expires_in", "state", "token_type"})

# RFC 6749, appendix A.1: VSCHAR.
_CLIENT_ID: Final = re.compile(r"[\x20-\x7e]+")


class LoginAttempt:
    """One login: made by `ImplicitFlow.start`, over with the first answer that carries its state.

    Attributes:
        url: Where the browser goes. It holds the state, so keep it out of logs.
        redirect_uri: Where the answer comes to.
        is_open: Whether an answer is still taken.
    """

    def __init__(self, url: str, redirect_uri: str, state: str) -> None:
        self.url = url
        self.redirect_uri = redirect_uri
        self.is_open = True
        self._state = state

    def claim(self, states: list[str]) -> None:
        """Let an answer end this attempt, if it carries our state, once.

        Raises:
            StateMismatchError: it does not, or another one did before.
        """
        if len(states) != 1:
            how = "no state" if not states else "more than one state"
            raise StateMismatchError(f"the answer has {how}: it belongs to no login of ours")
        # A lone surrogate can come in JSON, and is no UTF-8.
        state = states[0].encode("utf-8", "surrogatepass")
        if not hmac.compare_digest(state, self._state.encode()):
            raise StateMismatchError("the answer has another state: it belongs to another login")
        if not self.is_open:
            raise StateMismatchError(
                "the answer was used before: each login has an answer of its own"
            )
        self.is_open = False

    @safe_repr
    def __repr__(self) -> str:
        return f"<LoginAttempt ({'open' if self.is_open else 'over'})>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a LoginAttempt is a secret until it is over: it is not pickled")


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
        """Check everything.

        Args:
            authorization_url: Where people log in; https, unless it is this machine. A query of
                its own is kept.
            client_id: The name under which this program is registered there.
            scope: What to ask for. The gateway has no scopes, so usually nothing.
            extra: More parameters for the authorization URL, such as `prompt`.
            issuer: The server's own name. An answer with another `iss` is refused (RFC 9207).

        Raises:
            ConfigurationError: one of them is missing or wrong; the message names it.
        """
        _check_authorization_url(authorization_url)
        if not isinstance(client_id, str) or not _CLIENT_ID.fullmatch(client_id):
            raise ConfigurationError("client_id must be a string of printable ASCII characters")
        if issuer is not None and not isinstance(issuer, str):
            raise ConfigurationError("issuer must be a string")
        _check_extra(authorization_url, extra)
        self.authorization_url = authorization_url
        self.client_id = client_id
        self._scope = scope_names(scope)
        self._extra = dict(extra)
        self._issuer = issuer

    def start(self, redirect_uri: str) -> LoginAttempt:
        """Begin a login, with a state of its own that nobody can guess.

        Args:
            redirect_uri: Where the answer goes: exactly as it is registered, but that a loopback
                address may have any port (RFC 8252, 7.3).

        Raises:
            ConfigurationError: the address is no absolute http(s) URL, has a fragment, or a
                parameter of an answer.
        """
        # Imported here, because only logins need it and it takes as long as half of all the rest.
        from authlib.common.urls import add_params_to_uri  # noqa: PLC0415
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri  # noqa: PLC0415

        url = parse_url("redirect_uri", redirect_uri)
        if "#" in redirect_uri:
            raise ConfigurationError("redirect_uri has a fragment, where the answer has to go")
        if _THEIRS & set(url.params):
            raise ConfigurationError("redirect_uri has a parameter that every answer brings")
        state = secrets.token_urlsafe(32)  # 256 bits; RFC 6749, 10.10, asks for 128
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
        """Read the answer to a login.

        Args:
            attempt: The login that it must belong to.
            fragment: What stands behind the `#` of the address that the browser was sent to.
            query: What stands behind its `?`; some servers put errors or the state there.
            now: Seconds since 1970; the token's life is counted from here.

        Raises:
            StateMismatchError: it does not belong to this login, which stays open.
            AuthorizationDeniedError: the server said no.
            MalformedResponseError: it breaks RFC 6749, 4.2.2.
        """
        answer = Answer.of(fragment, query)
        attempt.claim(answer.all("state"))
        return read_grant(answer, scope=self._scope, issuer=self._issuer, now=now)

    def finish_url(self, attempt: LoginAttempt, url: str, *, now: float) -> Token:
        """Read the answer to a login from the whole address that the browser was sent to.

        White space in it, as pasting from a terminal brings along, does not matter.

        Raises:
            StateMismatchError: also if the address is not the attempt's redirect URI.
            AuthorizationDeniedError: as with `finish`.
            MalformedResponseError: as with `finish`.
        """
        address, _, fragment = "".join(url.split()).partition("#")
        place, _, query = address.partition("?")
        if _place(place) != _place(attempt.redirect_uri.partition("?")[0]):
            raise StateMismatchError("the address is not the one that logins are sent back to")
        return self.finish(attempt, fragment=fragment, query=query, now=now)

    @safe_repr
    def __repr__(self) -> str:
        return f"<ImplicitFlow of {self.client_id!r} at {httpx.URL(self.authorization_url).host}>"


def _check_authorization_url(authorization_url: str) -> None:
    url = parse_url("authorization_url", authorization_url)
    if "#" in authorization_url:
        raise ConfigurationError("authorization_url has a fragment: leave it out")
    if url.scheme == "http" and not is_loopback(url.host):
        raise ConfigurationError(
            f"authorization_url is plain http to {url.host}: the token would travel in clear"
        )


def _check_extra(authorization_url: str, extra: Mapping[str, str]) -> None:
    """See to it that no parameter is sent twice (RFC 6749, 3.1)."""
    if not isinstance(extra, Mapping) or not all(
        isinstance(text, str) and _is_utf8(text) for pair in extra.items() for text in pair
    ):
        raise ConfigurationError("extra must be a mapping of strings to strings")
    own = [name for name, _ in httpx.URL(authorization_url).params.multi_items()]
    names = [*own, *extra]
    if len(set(names)) < len(names):
        raise ConfigurationError("a parameter is there twice, in authorization_url or in extra")
    if taken := sorted(_OURS & set(names)):
        raise ConfigurationError(
            f"authorization_url and extra must not set {', '.join(taken)}: each login does"
        )


def _is_utf8(text: str) -> bool:
    """Tell whether a text can be encoded: half of a surrogate pair cannot."""
    return text.isascii() or text.encode("utf-8", "ignore").decode() == text


def _place(url: str) -> tuple[object, ...] | None:
    """Return an address without its query, with what is the same to a browser made equal."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return None
    return parsed.scheme, parsed.userinfo, parsed.raw_host, parsed.port, parsed.raw_path
