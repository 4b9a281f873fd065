"""A login that is not repeated right after it was in vain."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from typing import Any

from gateway_sdk.auth.token import Token
from gateway_sdk.errors import GatewayError, LoginError


class HeldLogin:
    """Logs in, and for a while does not do so again if that failed, or brought nothing twice.

    A storm of callers must not open window after window, nor must a gateway that refuses every
    token, however many logins succeed.
    """

    def __init__(
        self, acquire: Callable[[], Awaitable[Token]], hold: float, clock: Callable[[], float]
    ) -> None:
        self._acquire = acquire
        self._hold = hold
        self._clock = clock
        self._ended_at = 0.0
        self._token: Token | None = None
        self._failure: LoginError | None = None
        self._in_vain = False  # whether the last login replaced a token that one had just brought

    async def token(self, is_refused: Callable[[Token], bool]) -> Token:
        """Return the token of a login.

        Args:
            is_refused: Tells whether the gateway has refused a token.

        Raises:
            LoginError: the login failed, now or just before; or the tokens of two logins were
                refused just now.
        """
        recent = is_recent(self._ended_at, self._clock(), self._hold)
        if recent and self._failure is not None:
            raise copy.copy(self._failure)
        refused = recent and self._token is not None and is_refused(self._token)
        if refused and self._in_vain:
            raise LoginError("the gateway refuses the access tokens that logins have just brought")
        self._in_vain = refused
        try:
            self._token, self._failure = await self._log_in(), None
        except LoginError as error:
            # Without its traceback, whose frames hold what the login held.
            self._token, self._failure = None, copy.copy(error)
            raise
        finally:
            self._ended_at = self._clock()
        return self._token

    async def _log_in(self) -> Token:
        try:
            token: Any = await self._acquire()
        except GatewayError:
            raise
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            raise LoginError("the login was cancelled") from None
        except Exception as error:  # noqa: BLE001 - it is the user's, and may be anything
            raise LoginError(f"the login failed: {type(error).__name__}") from None
        if not isinstance(token, Token):
            raise LoginError("acquire must return a Token")
        if token.expired(self._clock(), leeway=0.0):
            raise LoginError("the login brought a token that has expired already")
        return token


def is_recent(moment: float, now: float, hold: float) -> bool:
    """Tell whether something was less than `hold` seconds ago; not if a clock was set back."""
    return 0 <= now - moment < hold


def is_cancelled() -> bool:
    """Tell whether it is us whom somebody cancels, and not something that we wait for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
