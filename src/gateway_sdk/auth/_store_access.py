"""A token store as a source uses it: the store may be slow, or fail in any way."""

import asyncio
import copy
import logging
import math
from collections.abc import Callable
from typing import Any, Final

from gateway_sdk.auth.stores._base import LoginClaim, TokenStore
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import GatewayError, TokenStoreError

_TIMEOUT: Final = 60.0
"""Seconds: a store that takes longer hangs. A keyring may ask the user for its password."""

_SLOW: Final = 0.1
"""Seconds: a result that took longer is kept."""

_KEPT: Final = 5.0
"""The maximum seconds for which a result is kept."""

_logger = logging.getLogger("gateway_sdk.auth")


class StoreAccess:
    """Reads and writes a store.

    A result that took long, or an error, is kept for as long as it took. Otherwise a store that
    hangs would delay every call.
    """

    def __init__(self, store: TokenStore, monotonic: Callable[[], float]) -> None:
        self.store = store
        self._monotonic = monotonic
        self._result: Token | GatewayError | None = None
        self._kept_until = -math.inf

    async def load(self) -> Token | None:
        """Return the token; None if there is none.

        Raises:
            TokenStoreError: The store cannot be read.
        """
        if self._monotonic() >= self._kept_until:
            began = self._monotonic()
            self._result = await self._ask()
            ended = self._monotonic()
            if ended - began >= _SLOW:
                self._kept_until = ended + min(ended - began, _KEPT)
        if isinstance(self._result, GatewayError):
            raise copy.copy(self._result)
        return self._result

    async def _ask(self) -> Token | GatewayError | None:
        try:
            async with asyncio.timeout(_TIMEOUT):
                loaded: Any = await self.store.load()
        except GatewayError as error:
            return error.with_traceback(None)
        except (Exception, asyncio.CancelledError) as error:  # the caller's store may raise both
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            kind = type(error).__name__
            return TokenStoreError(f"the access token cannot be read: {kind}")
        if loaded is not None and not isinstance(loaded, Token):
            return TokenStoreError("the access token cannot be read: its store returned no Token")
        return loaded

    def forget(self) -> None:
        """Forget the last result."""
        self._kept_until = -math.inf

    async def claim_login(self) -> LoginClaim | None:
        """Return the store's claim to log in; None if it has none to give."""
        claim_login = getattr(self.store, "claim_login", None)
        if claim_login is None:
            return None
        try:
            async with asyncio.timeout(_TIMEOUT):
                claim: LoginClaim = await claim_login()
        except Exception as error:  # noqa: BLE001 - the caller's store may raise anything
            kind = type(error).__name__
            _logger.info("other processes may ask for a login at the same time: %s", kind)
            return None
        return claim

    async def save(self, token: Token) -> None:
        """Save a token for other processes; if that fails, a warning is logged."""
        self.forget()
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self.store.save(token)
        except (Exception, asyncio.CancelledError) as error:  # the caller's store may raise both
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            reason = str(error) if isinstance(error, TokenStoreError) else type(error).__name__
            _logger.warning("the access token is not saved for other processes: %s", reason)


def is_cancelled() -> bool:
    """Return whether the current task is cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
