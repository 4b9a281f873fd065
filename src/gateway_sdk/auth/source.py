"""Token sources: where a session gets its access tokens from."""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from copy import copy
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

from pydantic import SecretStr

from gateway_sdk._checks import is_async
from gateway_sdk._python import MASK
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
from gateway_sdk.outcome import Advice

T = TypeVar("T")

DEFAULT_LOGIN_TIMEOUT: Final = 300.0
"""Seconds for the user to log in: enough to find a second factor."""

_logger = logging.getLogger("gateway_sdk.auth")


SILENT: Final = 30.0
"""Seconds after which a source of tokens lacks a login: a slow vault answers earlier."""
_FORGOTTEN: Final = 600.0
"""Seconds without a wait, after which another one begins anew."""


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


_with_ready: Final = set[type]()


def has_ready(kind: type[T]) -> type[T]:
    """Mark a class of ours whose `ready` returns the token that it has at hand."""
    _with_ready.add(kind)  # not its subclasses, which may return other tokens
    return kind


@has_ready
class StaticTokenSource:
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


@has_ready
class FunctionTokenSource:
    """A coroutine function; a `Token` with an end is kept until near it, for all callers."""

    # What has no end is asked for by each attempt: it may depend on the caller's context.

    def __init__(self, function: Callable[[], Awaitable[AccessToken]]) -> None:
        self._function = function
        self._cached: CachedToken | None = None
        self._asks_always = self._has_end = False  # until it has returned a token
        self._renewal = SingleFlight(self._renew)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asking = asyncio.Lock()
        self._began = 0.0  # when the one who asks now did, by the loop's clock
        self._failure: GatewayError = AuthError("")  # the last one

    async def token(self, rejected: Any = None) -> AccessToken:
        """Return the token that is kept, or what the function returns."""
        if rejected is not None:
            self.reject(rejected)
        if not self._asks_always:
            if (token := self.ready()) is not None:
                return token
            failure = self._failure
            async with self._turn():
                if (cached := self._cached) is not None and cached.lasts():
                    return cached.token
                has_failed = self._failure is not failure  # the question that this one waited for
                if has_failed and self._has_end:
                    raise _failed(self._failure)
                if not (self._asks_always or has_failed):
                    return await self._ask_for_all()
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
            self._renewal.start()
        return cached.token

    async def _renew(self) -> None:
        if (cached := self._cached) is None:
            return  # it was rejected: the next caller asks
        # At its end, each caller asks in its own time.
        try:
            async with asyncio.timeout(cached.left()), self._turn():
                await self._ask()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - its text may be secret
            raise_if_cancelled(error)  # who asks after the end gets the error

    @asynccontextmanager
    async def _turn(self) -> AsyncGenerator[None]:
        """Wait for the question that is asked now, but not for one that hangs."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Lock | None = None
        while turn is None:
            if self._loop is not loop or loop.time() >= self._began + SILENT:
                self._loop, self._asking, self._began = loop, asyncio.Lock(), loop.time()
            asking = self._asking
            with suppress(TimeoutError):
                async with asyncio.timeout_at(self._began + SILENT):
                    await asking.acquire()
                    turn = asking
        self._began = loop.time()
        try:
            yield
        finally:
            turn.release()

    async def _ask_for_all(self) -> AccessToken:
        try:
            return await self._ask()
        except (Exception, asyncio.CancelledError) as error:
            raise_if_cancelled(error)
            self._failure = _failed(error)
            raise

    async def _ask(self) -> AccessToken:
        promised: Any = self._function()
        if not inspect.isawaitable(promised):
            problem = "is a plain function: make it async"
            raise ConfigurationError(problem, setting="access_token")
        token: AccessToken = await promised
        self._has_end = isinstance(token, Token) and token.expires_at is not None
        self._asks_always = not self._has_end
        if isinstance(token, Token):
            cached = CachedToken(token, DEFAULT_LEEWAY)
            if not cached.lasts():
                raise _expired(token)
            self._cached = cached if self._has_end else None
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
    if callable(getattr(access_token, "token", None)):
        reject = getattr(access_token, "reject", None)
        if reject is not None and (not callable(reject) or is_async(reject)):
            raise ConfigurationError(
                "has a reject that is not a plain function of a token", setting=name
            )
        return cast("TokenSource", access_token)
    if callable(access_token):
        return FunctionTokenSource(cast("Callable[[], Awaitable[AccessToken]]", access_token))
    raise ConfigurationError(
        "must be a string, a SecretStr, a Token, a coroutine function or an object with "
        "async token(rejected=None)",
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


def note_success(source: TokenSource, token: AccessToken) -> None:
    """Tell a SharedTokenSource that the gateway accepted a token."""
    note = getattr(source, "note_success", None)
    if note is not None and not _with_ready.isdisjoint(type(source).__mro__):  # else the user's own
        note(token)


def ready_token(source: TokenSource) -> Token | None:
    """Return the token that one of our sources has at hand; None if it has to be fetched."""
    known: Any = source
    return known.ready() if type(source) in _with_ready else None


@hiding_frames(GatewayError)
async def fetch_token(source: TokenSource, rejected: AccessToken | None = None) -> AccessToken:
    """Return a token of the source; ConfigurationError if it is none, or not valid in a header."""
    try:
        token: Any = await (source.token(rejected) if rejected else source.token())
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - sources raise both
        raise_if_cancelled(error)
        raise _failed(error) from (error.__cause__ if isinstance(error, GatewayError) else None)
    if isinstance(token, Token):
        return token
    if not isinstance(token, str | SecretStr):
        told = f"is no token: its source returned an object of the type {type(token).__name__}"
        raise ConfigurationError(told, setting="access_token")
    if problem := problem_of(text_of(token)):
        raise ConfigurationError(f"from its source {problem}", setting="access_token")
    return _HiddenToken(str.__str__(token)) if isinstance(token, str) else token


class Silence:
    """For how long calls have waited for a token source that has not answered since."""

    def __init__(self) -> None:
        self.seconds, self._until = 0.0, 0.0
        self.lacks_login = False  # as its last answer said

    def add(self, began: float) -> Advice:
        """Count a wait that ended without an answer; return the advice that follows."""
        now = time.monotonic()
        if began - self._until > _FORGOTTEN:
            self.seconds, self.lacks_login = 0.0, False
        self.seconds += now - max(began, self._until)  # waits at the same time count once
        self._until = now
        return Advice.LOG_IN if self.lacks_login or self.seconds >= SILENT else Advice.REPEAT

    def end(self, error: GatewayError | None = None) -> None:
        """Note that the source has answered, perhaps by an error."""
        self.seconds, self._until = 0.0, time.monotonic()
        self.lacks_login = error is not None and error.advice is Advice.LOG_IN


def _failed(error: BaseException) -> GatewayError:
    """Return an error of a source for another call, which writes its operation into it."""
    if isinstance(error, GatewayError):
        return copy(error)
    # Without its message and its cause, which may contain a URL with a token.
    return AuthError(f"the source of the access token failed: {type(error).__name__}")


class _HiddenToken(str):
    """A token that is a str, and that a traceback with variables does not show."""

    __slots__ = ()

    def __repr__(self) -> str:
        return repr(MASK)


def _expired(token: Token) -> LoginRequiredError:
    return LoginRequiredError(f"the access token expired at {token.ends}: get a new one")


def authorization(token: AccessToken) -> bytes:
    """Return the value of the header Authorization."""
    text = token.value.get_secret_value() if isinstance(token, Token) else text_of(token)
    return b"Bearer " + text.encode("ascii")
