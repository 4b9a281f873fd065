"""Token sources: the seam between a session and whatever knows how to get an access token."""

import inspect
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, cast

from pydantic import SecretStr

from gateway_sdk._config import is_async
from gateway_sdk.auth.token import AccessToken, Token, problem_of, text_of
from gateway_sdk.errors import AuthError, ConfigurationError, GatewayError, LoginRequiredError

_logger = logging.getLogger(__name__)


class TokenSource(Protocol):
    """Anything that can be asked for an access token.

    It may have a method `reject` too, as `RejectingTokenSource` has.
    """

    async def token(self, rejected: Any = None) -> AccessToken:
        """Return a token that can be sent.

        Args:
            rejected: None, or what was returned before and has just been answered with 401.
                Return another one if there is one; the same means that there is none.
        """
        ...


class RejectingTokenSource(TokenSource, Protocol):
    """A token source that also hears of a 401 after which no other token is asked for.

    That is the 401 of a body that cannot be sent again, as of a stream, and the second 401 of a
    call. A source that keeps its token needs `reject`: else the next call is sent with the same.
    """

    def reject(self, token: Any) -> object:
        """Note that the gateway answered 401 to a token, which `token()` returned before.

        It is a plain function, not `async def`, and has to be quick; the next call gets the other
        token from `token()`. What it raises is logged and changes nothing. It may hear of the
        same token many times, and of one that was replaced meanwhile.
        """
        ...


AccessTokenGiven: TypeAlias = AccessToken | Callable[[], Awaitable[AccessToken]] | TokenSource
"""What a session takes as its `access_token`."""


class StaticToken:
    """One token, for as long as it lasts."""

    def __init__(self, token: Token) -> None:
        self._token = token

    async def token(self, rejected: Any = None) -> AccessToken:  # noqa: ARG002 - there is no other
        """Return the token, whatever was rejected.

        Raises:
            LoginRequiredError: it has expired.
        """
        return _unexpired(self._token)


class CalledToken:
    """A coroutine function, asked anew for each attempt; keeping tokens is its own matter."""

    def __init__(self, function: Callable[[], Awaitable[AccessToken]]) -> None:
        self._function = function

    async def token(self, rejected: Any = None) -> AccessToken:  # noqa: ARG002 - it takes no argument
        """Return what the function returns.

        Raises:
            LoginRequiredError: it has expired.
            AuthError: it is not a coroutine function.
        """
        promised: Any = self._function()
        if not inspect.isawaitable(promised):
            raise AuthError("access_token is a plain function: make it async")
        token: AccessToken = await promised
        return _unexpired(token) if isinstance(token, Token) else token


def as_token_source(access_token: object, name: str = "access_token") -> TokenSource:
    """Turn what the user gave as access token into a token source.

    Raises:
        ConfigurationError: it is missing, cannot be a token, or is of a type that cannot give one.
    """
    if isinstance(access_token, Token):
        return StaticToken(access_token)
    if isinstance(access_token, str | SecretStr):
        problem = problem_of(text_of(access_token))
        if problem:
            raise ConfigurationError(f"{name} {problem}")
        return StaticToken(Token(access_token))
    if inspect.isclass(access_token):
        raise ConfigurationError(f"{name} is a class: give an instance of it")
    if callable(getattr(access_token, "token", None)):
        _check_reject(getattr(access_token, "reject", None), name)
        return cast("TokenSource", access_token)
    if callable(access_token):
        return CalledToken(cast("Callable[[], Awaitable[AccessToken]]", access_token))
    raise ConfigurationError(
        f"{name} must be a string, a SecretStr, a Token, a coroutine function or an object with "
        "async token(rejected=None)"
    )


def _check_reject(reject: object, name: str) -> None:
    if reject is not None and (not callable(reject) or is_async(reject)):
        raise ConfigurationError(f"{name} has a reject that is no plain function of a token")


def tell_rejected(source: TokenSource, token: AccessToken) -> None:
    """Tell a source that a token was refused, where no other one is asked for."""
    reject = getattr(source, "reject", None)
    if reject is None:
        return
    try:
        reject(token)
    except Exception as error:  # noqa: BLE001 - it is the user's, and must not hide the 401
        # Without the error itself, whose text may hold the token.
        _logger.error("reject() of the token source failed: %s", type(error).__name__)  # noqa: TRY400


async def ask(source: TokenSource, rejected: AccessToken | None = None) -> AccessToken:
    """Return a token whose text may stand in a header.

    Raises:
        AuthError: the source failed, or what it returned cannot be a token. Errors of this
            package come through as they are.
    """
    try:
        token: Any = await (source.token(rejected) if rejected else source.token())
    except GatewayError:
        raise
    except Exception as error:  # noqa: BLE001 - it is the user's, and may be anything
        # Without the cause, whose text may hold an address with a token in it.
        raise AuthError(f"the source of the access token failed: {type(error).__name__}") from None
    if isinstance(token, Token):
        return token
    if not isinstance(token, str | SecretStr):
        raise AuthError("the source of the access token returned something that is no token")
    problem = problem_of(text_of(token))
    if problem:
        raise AuthError(f"the access token from its source {problem}")
    return token


def _unexpired(token: Token) -> Token:
    """Return the token, unless it is known that the gateway will refuse it."""
    if token.expired(time.time(), leeway=0.0):
        raise LoginRequiredError(f"the access token expired at {token.ends}: get another one")
    return token
