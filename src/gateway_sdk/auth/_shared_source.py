"""A token that many callers share: kept in a store, obtained by one login for all of them."""

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
from gateway_sdk.auth._login_coordination import (
    LoginCooldown,
    SingleFlight,
    is_cancelled,
    is_recent,
)
from gateway_sdk.auth.stores._base import TokenKey, TokenStore, UnusableRecordError
from gateway_sdk.auth.token import DEFAULT_LEEWAY, AccessToken, Token, text_of
from gateway_sdk.errors import (
    ConfigurationError,
    GatewayError,
    LoginRequiredError,
    TokenStoreError,
)

DEFAULT_HOLD: Final = 30.0
"""Seconds: enough for a user to notice, and far longer than a burst of callers lasts."""

_ROUNDS: Final = 3
"""Renewals that one caller joins: the running one may have started because of another token."""

_MAX_REFUSED: Final = 32

_logger = logging.getLogger("gateway_sdk.auth")


class SharedTokenSource:
    """A token source for any number of callers, tasks and sessions.

    A usable token in memory is returned without a lock and without waiting. Otherwise the store
    is read, because another process may have saved one; then, if `acquire` is given, one login
    takes place for all callers that wait. The login goes on when the caller that started it is
    cancelled; when the last one is cancelled, it is cancelled too.

    It can be used in several event loops, one after the other or at the same time.
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
        """Check the arguments; nothing is read.

        Args:
            store: Where the token is kept.
            acquire: Logs in, such as `lambda: login(flow)`; it must not call this source. None for
                a process without a user: then LoginRequiredError says what to do.
            leeway: Seconds before its expiry from which a token is renewed, but at most a tenth of
                its lifetime.
            hold: Seconds without a new login after one failed, or after the gateway refused the
                tokens of two; and seconds for which a refused token is not taken from the store.
            clock: Returns seconds since 1970.

        Raises:
            ConfigurationError: An argument is invalid; the message names it.
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
        self._login = None if acquire is None else LoginCooldown(acquire, self._hold, clock)
        self._token: Token | None = None
        self._refused: dict[str, float] = {}
        self._refusing = threading.Lock()  # several event loops may have several threads
        self._renewal = SingleFlight(self._renew)

    @property
    def gateway(self) -> str | None:
        """The origin of the gateway that the token is for; None if the store has no key."""
        key: TokenKey | None = getattr(self._store, "key", None)
        return key.gateway if key else None

    async def token(self, rejected: Any = None) -> Token:
        """Return a token that has not expired and is not the rejected one.

        Args:
            rejected: None, or the token to which the gateway has just answered 401. If it was
                replaced in the meantime, the new one is returned at once.

        Raises:
            LoginRequiredError: There is none, and no `acquire` to get one.
            LoginError: The login failed, now or less than `hold` seconds ago.
            TokenStoreError: The store cannot be read.
        """
        if rejected is not None:
            self.reject(rejected)
        rounds = 0
        while (token := self._token) is None or not self._is_usable(token):
            if rounds == _ROUNDS:
                raise LoginRequiredError("the gateway refused each new access token at once")
            rounds += 1
            try:
                await self._renewal.join()
            except GatewayError as error:
                if token is not None and self._is_usable(token, leeway=0.0):
                    return token  # the renewal was ahead of time: it has not expired yet
                # A copy for each caller, which sets the operation on it.
                raise copy.copy(error) from None
        return token

    def _is_usable(self, token: Token, leeway: float | None = None) -> bool:
        ahead = self._leeway if leeway is None else leeway
        return not token.expired(self._clock(), ahead) and not self._is_refused(token)

    def _is_refused(self, token: Token) -> bool:
        return bool(self._refused) and text_of(token) in self._refused

    def reject(self, token: AccessToken) -> None:
        """Note that the gateway refused a token; the next call of `token` returns another one."""
        with self._refusing:
            self._refused[text_of(token)] = self._clock()
            if len(self._refused) > _MAX_REFUSED:
                del self._refused[next(iter(self._refused))]

    def _forgive(self, token: Token) -> None:
        with self._refusing:
            self._refused.pop(text_of(token), None)

    async def _renew(self) -> None:
        """Find a usable token: in the store, or else by a login."""
        if self._token is not None and self._is_usable(self._token):
            return  # another event loop has renewed it
        loaded = await self._load()
        if loaded is not None and self._may_use(loaded):
            self._token = loaded
        elif self._login is None:
            raise LoginRequiredError(
                f"{self._unusable_reason(loaded)}: log in with `gateway login`"
            )
        else:
            token = await self._login.log_in(self._is_refused)
            self._forgive(token)  # a server may issue the same token again
            self._token = token
            await self._save(token)

    async def _load(self) -> Token | None:
        try:
            loaded: Any = await self._store.load()
        except UnusableRecordError:
            if self._login is None:
                raise
            return None  # the login's token replaces it
        except GatewayError:
            raise
        except (Exception, asyncio.CancelledError) as error:  # the caller's store may raise both
            if is_cancelled():
                raise
            kind = type(error).__name__
            raise TokenStoreError(f"the access token cannot be read: {kind}") from None
        if loaded is not None and not isinstance(loaded, Token):
            raise TokenStoreError("the access token cannot be read: its store returned no Token")
        return loaded

    def _may_use(self, token: Token) -> bool:
        """Return whether a token from the store is usable.

        Without `acquire`, a refused token is tried again after `hold` seconds: there is no other,
        and the fault may have been the gateway's.
        """
        refused_at = self._refused.get(text_of(token), -math.inf)
        if self._login is None and not is_recent(refused_at, self._clock(), self._hold):
            self._forgive(token)
        return self._is_usable(token)

    def _unusable_reason(self, loaded: Token | None) -> str:
        if loaded is None:
            return "there is no access token"
        if self._is_refused(loaded):
            return "the gateway refused the access token"
        return f"the access token expires at {loaded.ends}"

    async def _save(self, token: Token) -> None:
        """Save a token for other processes; this one uses it even if that fails."""
        try:
            await self._store.save(token)
        except (Exception, asyncio.CancelledError) as error:  # the caller's store may raise both
            if is_cancelled():
                raise
            reason = str(error) if isinstance(error, TokenStoreError) else type(error).__name__
            _logger.warning("the access token is not saved for other processes: %s", reason)

    @safe_repr
    def __repr__(self) -> str:
        return f"<SharedTokenSource in {self._store!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SharedTokenSource holds a secret: it cannot be pickled")
