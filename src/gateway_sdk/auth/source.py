"""Token sources: where a session gets its access tokens from."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any, Final, Protocol, TypeAlias, cast

from pydantic import SecretStr

from gateway_sdk._checks import accepts, is_async, promised
from gateway_sdk._python import MASK, Log
from gateway_sdk._waiting import SingleFlight, hiding_frames, raise_if_cancelled
from gateway_sdk.auth.token import (
    DEFAULT_LEEWAY,
    AccessToken,
    CachedToken,
    Token,
    problem_of,
    text_of,
)
from gateway_sdk.errors import AuthError, ConfigurationError, GatewayError, LoginRequiredError
from gateway_sdk.outcome import Outcome

DEFAULT_LOGIN_TIMEOUT: Final = 300.0
"""Seconds for the user to log in: enough to find a second factor."""

DEFAULT_ACQUIRE_TIMEOUT: Final = 2 * DEFAULT_LOGIN_TIMEOUT
"""Seconds: by itself a login ends much earlier, so that what takes longer hangs."""

_logger = Log("gateway_sdk.auth")

SILENT: Final = 30.0
"""Seconds after which a source of tokens lacks a login: a slow vault answers earlier."""
_MOST_FAILURES: Final = 3
"""Of questions that one caller waits for; then it asks in its own time."""


class TokenSource(Protocol):
    """Returns access tokens.

    A source that keeps its token needs a plain method `reject(token)`, too. It is called after a
    401 for which no other token is fetched: that of a body that cannot be sent again, and the
    second one of a call. It must not block; what it raises is logged and changes nothing. It may be
    called several times for one token, and for one that was replaced in the meantime.
    """

    async def token(self, rejected: Any = None) -> AccessToken:
        """Return a token that can be sent.

        Args:
            rejected: None, or a token that was returned before and to which the gateway has just
                answered 401. Return another one, or the same if there is no other.
        """
        ...


AccessTokenGiven: TypeAlias = AccessToken | Callable[[], Awaitable[AccessToken]] | TokenSource
"""What a session accepts as its `access_token`."""


class Builtin:
    """Base of the sources of this package, which have `ready`; a subclass may have other tokens."""

    def note_success(self, token: AccessToken) -> None:
        """Note that the gateway accepted a token."""


class StaticTokenSource(Builtin):
    """One token, until it expires."""

    def __init__(self, token: Token) -> None:
        self._cached = CachedToken(token, 0.0)

    async def token(self, rejected: Any = None) -> AccessToken:  # noqa: ARG002 - there is no other
        """Return the token, even if it was rejected; LoginRequiredError if it has expired."""
        if (token := self.ready()) is not None:
            return token
        error = _expired(self._cached.token)
        error.token_is_static = True
        raise error

    def ready(self) -> Token | None:
        """Return the token, unless it has expired."""
        if not self._cached.lasts():  # perhaps the clock was ahead, and was set right
            self._cached = CachedToken(self._cached.token, 0.0)
        return self._cached.token if self._cached.lasts() else None

    @property
    def endless(self) -> SecretStr | None:
        """The token itself, if it has no end."""
        token = self._cached.token
        return token.value if token.expires_at is None else None


class FunctionTokenSource(Builtin):
    """A coroutine function; a `Token` with an end is kept until near it, for all callers."""

    # What has no end is asked for by each attempt: it may depend on the caller's context.

    def __init__(self, function: Callable[[], Awaitable[AccessToken]]) -> None:
        self._function = function
        self._cached: CachedToken | None = None
        self._has_end: bool | None = None  # until it has returned a token
        self._asked = self._answered = 0  # the numbers of the last questions
        # It goes on when its caller leaves: others wait, and a new token may end the last one.
        self.question = SingleFlight(self._ask, hangs_after=SILENT)

    async def token(self, rejected: Any = None) -> AccessToken:
        """Return the token that is kept, or what the function returns."""
        if rejected is not None:
            self.reject(rejected)
        failures = 0  # of others
        while self._has_end is not False and failures < _MOST_FAILURES:
            if (token := self.ready()) is not None:
                return token
            if (asked := self.question.running()) is None:
                own = self.question.start()  # in this caller's context
                while not (await asyncio.wait([own], timeout=1.0))[0]:  # in seconds
                    if (token := self.ready()) is not None:  # of a later question: this one hangs
                        return token
                return own.result()
            await asyncio.wait([asked], timeout=self.question.left())
            if self._has_end and asked.done() and not asked.cancelled():
                return asked.result()
            failures += asked.done()
        return await self._ask()  # in the caller's context: it may say whose token it is

    def reject(self, token: AccessToken) -> None:
        """Ask for another token next time, if this one is kept."""
        if self._cached is not None and text_of(self._cached.token) == text_of(token):
            self._cached = None

    def ready(self) -> Token | None:
        """Return the token that is kept, if it works; near its end, ask for another beside that."""
        cached = self._cached
        if cached is None or not cached.lasts():
            return None
        if cached.is_due():
            self.question.start()
        return cached.token

    @hiding_frames(Exception)
    async def _ask(self) -> AccessToken:
        number = self._asked = self._asked + 1
        async with asyncio.timeout(DEFAULT_ACQUIRE_TIMEOUT):  # it may ask a user to log in
            token: AccessToken = await promised("access_token", self._function)
        self._has_end = isinstance(token, Token) and token.expires_at is not None
        if isinstance(token, Token):
            cached = CachedToken(token, DEFAULT_LEEWAY)
            if not cached.lasts():
                raise _expired(token)
            if number > self._answered:  # else it hung, and its token may be from before that one
                self._answered, self._cached = number, cached if self._has_end else None
        return token


def as_token_source(name: str, access_token: object) -> TokenSource:
    """Return the token source for what a caller passed; ConfigurationError if it is invalid."""
    if isinstance(access_token, Token):
        return StaticTokenSource(access_token)
    if isinstance(access_token, str | SecretStr):
        if problem := problem_of(text_of(access_token)):
            raise ConfigurationError(problem, setting=name)
        return StaticTokenSource(Token(access_token))
    if inspect.isclass(access_token):
        raise ConfigurationError("is a class: pass an instance of it", setting=name)
    token = getattr(access_token, "token", None)
    if callable(token) and accepts(token, None):
        reject = getattr(access_token, "reject", None)
        if reject is not None and (not callable(reject) or is_async(reject)):
            problem = "has a reject that is not a plain function of a token"
            raise ConfigurationError(problem, setting=name)
        return cast("TokenSource", access_token)
    if callable(access_token) and accepts(access_token):
        return FunctionTokenSource(cast("Callable[[], Awaitable[AccessToken]]", access_token))
    raise ConfigurationError(
        "must be a string, a SecretStr, a Token, a coroutine function without arguments "
        "or an object with async token(rejected=None)",
        setting=name,
    )


def invalidate(source: TokenSource, token: AccessToken) -> None:
    """Tell a source that the gateway refused a token, when no other one is fetched."""
    if (reject := getattr(source, "reject", None)) is None:
        return
    try:
        reject(token)
    except Exception as error:  # noqa: BLE001 - the caller's function must not hide the 401
        # Without the error's message, which may contain the token.
        _logger.error("reject() of the token source failed: %s", type(error).__name__)  # noqa: TRY400


def ready_token(source: TokenSource) -> Token | None:
    """Return the token that one of our sources has at hand; None if it has to be fetched."""
    known: Any = source
    return known.ready() if Builtin in type(source).__bases__ else None


@hiding_frames(GatewayError)
async def fetch_token(source: TokenSource, rejected: AccessToken | None = None) -> AccessToken:
    """Return a token of the source; ConfigurationError if it is none, or not valid in a header."""
    try:
        token: Any = await promised("access_token.token", source.token, rejected)
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - sources raise both
        raise_if_cancelled(error)
        if not isinstance(error, GatewayError):
            # Without its message and its cause, which may contain a URL with a token.
            told = f"the source of the access token failed: {type(error).__name__}"
            raise AuthError(told) from None
        own = copy(error)  # others may get it too, and each call writes its operation into it
        # It may be that of a call which the source has made: nothing of this one was sent yet.
        own.operation = own.repeatability = None
        own.outcome, own.attempts, own.no_retry = Outcome.NOT_SENT, (), ""
        raise own from error.__cause__
    if not isinstance(token, AccessToken):
        told = f"is no token: its source returned an object of the type {type(token).__name__}"
        raise ConfigurationError(told, setting="access_token")
    if problem := problem_of(text_of(token)):
        raise ConfigurationError(f"from its source {problem}", setting="access_token")
    return _HiddenToken(str.__str__(token)) if isinstance(token, str) else token


class _HiddenToken(str):
    """A token that is a str, and that a traceback with variables does not show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(MASK)


def _expired(token: Token) -> LoginRequiredError:
    return LoginRequiredError(f"the access token expired at {token.ends}: get a new one")
