"""A token that many callers share: kept in a store, got by one login for all of them."""

import asyncio
import copy
import inspect
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn

from gateway_sdk._config import check_wait
from gateway_sdk._repr import safe_repr
from gateway_sdk.auth.held_login import HeldLogin, is_cancelled, is_recent
from gateway_sdk.auth.single_flight import SingleFlight
from gateway_sdk.auth.stores.base import TokenKey, TokenStore, UnusableRecordError
from gateway_sdk.auth.token import DEFAULT_LEEWAY, AccessToken, Token, text_of
from gateway_sdk.errors import (
    ConfigurationError,
    GatewayError,
    LoginRequiredError,
    TokenStoreError,
)

DEFAULT_HOLD: Final = 30.0
"""Seconds: as long as a person takes to notice, and far longer than a storm of callers."""

_ROUNDS: Final = 3
"""Renewals that one caller joins: the one under way may have begun for another token's sake."""

_MOST_REFUSED: Final = 32

_logger = logging.getLogger(__name__)


class SharedTokenSource:
    """A token source for any number of callers, tasks and sessions.

    A token at hand costs no lock and no wait. Without a usable one the store is read, where
    another process may have put one; then, if there is an `acquire`, a login takes place: one,
    for all who wait. It outlives the caller that began it, and ends with the last one.

    It can be used in several event loops, one after the other or side by side.
    """

    def __init__(
        self,
        store: TokenStore,
        acquire: Callable[[], Awaitable[Token]] | None = None,
        *,
        leeway: float = DEFAULT_LEEWAY,
        hold: float = DEFAULT_HOLD,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Check everything; nothing is read yet.

        Args:
            store: Where the token is kept.
            acquire: Logs in, such as `lambda: login(flow)`; it must not ask this source. None
                for a process in which nobody can be asked: then LoginRequiredError says what to
                do.
            leeway: Seconds before its end from which a token is not sent any more, but never
                more than a tenth of its life.
            hold: Seconds for which a login that failed, or two whose tokens were refused, are not
                tried again, and a token that the gateway refused is not taken from the store.
            clock: Gives the time in seconds since 1970.

        Raises:
            ConfigurationError: one of them is wrong; the message names it.
        """
        if inspect.isclass(store) or not all(
            callable(getattr(store, name, None)) for name in ("load", "save", "delete")
        ):
            raise ConfigurationError("store must be a token store, such as PrivateFileStore(key)")
        if not isinstance(getattr(store, "key", None), TokenKey | None):
            raise ConfigurationError("the key of store must be a TokenKey, or None")
        if acquire is not None and not callable(acquire):
            raise ConfigurationError("acquire must be a coroutine function that returns a Token")
        if not callable(clock):
            raise ConfigurationError("clock must be a function that returns seconds since 1970")
        self._store = store
        self._leeway = check_wait("leeway", leeway)
        self._hold = check_wait("hold", hold)
        self._clock = clock
        self._login = None if acquire is None else HeldLogin(acquire, self._hold, clock)
        self._token: Token | None = None
        self._refused: dict[str, float] = {}
        self._refusing = threading.Lock()  # several event loops may have several threads
        self._renewal = SingleFlight(self._renew)

    @property
    def gateway(self) -> str | None:
        """The origin of the gateway that the token is for; None if the store does not say."""
        key: TokenKey | None = getattr(self._store, "key", None)
        return key.gateway if key else None

    async def token(self, rejected: Any = None) -> Token:
        """Return a token that has not expired and is not the rejected one.

        Args:
            rejected: None, or the token that the gateway has just answered with 401. If another
                one is here by now, it is returned at once.

        Raises:
            LoginRequiredError: there is none, and nobody can be asked here.
            LoginError: the login failed, now or less than `hold` seconds ago.
            TokenStoreError: the store cannot be read.
        """
        if rejected is not None:
            self.reject(rejected)
        rounds = 0
        while (token := self._token) is None or not self._is_usable(token):
            if rounds == _ROUNDS:
                raise LoginRequiredError("every access token that came was refused at once")
            rounds += 1
            try:
                await self._renewal.join()
            except GatewayError as error:
                if token is not None and self._is_usable(token, leeway=0.0):
                    return token  # it was to be renewed ahead of its end, which has not come yet
                # One for each caller, who writes on it which call it ended.
                raise copy.copy(error) from None
        return token

    def _is_usable(self, token: Token, leeway: float | None = None) -> bool:
        ahead = self._leeway if leeway is None else leeway
        return not token.expired(self._clock(), ahead) and not self._is_refused(token)

    def _is_refused(self, token: Token) -> bool:
        return bool(self._refused) and text_of(token) in self._refused

    def reject(self, token: AccessToken) -> None:
        """Hear that the gateway refused a token; whoever asks next gets another one."""
        with self._refusing:
            self._refused[text_of(token)] = self._clock()
            if len(self._refused) > _MOST_REFUSED:
                del self._refused[next(iter(self._refused))]

    def _forgive(self, token: Token) -> None:
        with self._refusing:
            self._refused.pop(text_of(token), None)

    async def _renew(self) -> None:
        """Find a usable token: in the store, or else by a login."""
        if self._token is not None and self._is_usable(self._token):
            return  # another event loop was faster
        loaded = await self._load()
        if loaded is not None and self._may_use(loaded):
            self._token = loaded
        elif self._login is None:
            raise LoginRequiredError(f"{self._why_not(loaded)}: log in with `gateway login`")
        else:
            token = await self._login.token(self._is_refused)
            self._forgive(token)  # a server may give the same one again, and stands by it
            self._token = token
            await self._save(token)

    async def _load(self) -> Token | None:
        try:
            loaded: Any = await self._store.load()
        except UnusableRecordError:
            if self._login is None:
                raise
            return None  # the login's token takes its place
        except GatewayError:
            raise
        except (Exception, asyncio.CancelledError) as error:  # a store of the user's may raise both
            if is_cancelled():
                raise
            kind = type(error).__name__
            raise TokenStoreError(f"the access token cannot be read: {kind}") from None
        if loaded is not None and not isinstance(loaded, Token):
            raise TokenStoreError("the access token cannot be read: its store returned no Token")
        return loaded

    def _may_use(self, token: Token) -> bool:
        """Tell whether a token from the store is usable.

        Where nobody can log in, one that was refused is tried again after a while: it is better
        than none, if it was the gateway that was out of order.
        """
        refused_at = self._refused.get(text_of(token), -math.inf)
        if self._login is None and not is_recent(refused_at, self._clock(), self._hold):
            self._forgive(token)
        return self._is_usable(token)

    def _why_not(self, loaded: Token | None) -> str:
        if loaded is None:
            return "there is no access token"
        if self._is_refused(loaded):
            return "the gateway refused the access token"
        return f"the access token ends at {loaded.ends}"

    async def _save(self, token: Token) -> None:
        """Keep a token for other processes; this one has it in any case."""
        try:
            await self._store.save(token)
        except (Exception, asyncio.CancelledError) as error:  # a store of the user's may raise both
            if is_cancelled():
                raise
            told = str(error) if isinstance(error, TokenStoreError) else type(error).__name__
            _logger.warning("the access token is not kept for other processes: %s", told)

    @safe_repr
    def __repr__(self) -> str:
        return f"<SharedTokenSource in {self._store!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SharedTokenSource holds a secret: it is not pickled")
