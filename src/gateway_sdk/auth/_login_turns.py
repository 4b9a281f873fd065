"""Turns to log in: of all processes that share a store, one at a time asks its user."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from gateway_sdk.auth._store_access import StoreAccess
from gateway_sdk.auth.stores._claims import LoginClaim
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import LoginError

_POLL: Final = 0.5
"""Seconds between two looks at the store while another process logs in."""

_KEEP: Final = 10.0
"""Seconds between two renewals of a claim, which lasts three times as long."""

_logger = logging.getLogger("gateway_sdk.auth")


class LoginTurns:
    """Waits while another process logs in, and then takes its token, or logs in.

    That needs a store with `claim_login`. Where there is none, or it fails, a second window is
    better than no login.
    """

    def __init__(
        self,
        access: StoreAccess,
        find: Callable[[], Awaitable[Token | None]],
        keep: Callable[[Token], Awaitable[None]],
    ) -> None:
        """Set what is asked.

        Args:
            access: The store.
            find: Returns a token that makes a login unnecessary, if there is one.
            keep: Keeps the token of a login, in memory and in the store.
        """
        self._access = access
        self._find = find
        self._keep_token = keep

    async def take(self, log_in: Callable[[], Awaitable[Token]]) -> Token:
        """Log in and keep the token, or return the token of another process's login.

        Raises:
            GatewayError: The login failed, here or in the process that was waited for.
        """
        claim = await self._access.claim_login()
        if claim is None:
            return await self._log_in(log_in)
        if claim.granted:
            return await self._log_in_by(claim, log_in)
        _logger.info("waiting for the login of another process")
        return await self._wait(claim.failure, log_in)

    async def _wait(self, failure: str, log_in: Callable[[], Awaitable[Token]]) -> Token:
        """Return the token of the process that logs in; log in if it has ended without one."""
        while True:
            await asyncio.sleep(_POLL)
            if (token := await self._find()) is not None:
                return token
            claim = await self._access.claim_login()
            if claim is None:
                return await self._log_in(log_in)
            if claim.granted:
                break
        # Without a mark none has failed: in Redis it lapses with the claim of a killed process.
        if claim.failure not in ("", failure):
            await _end(claim, failed=False)
            raise LoginError("the login failed, in another process that asked its user")
        return await self._log_in_by(claim, log_in)

    async def _log_in_by(self, claim: LoginClaim, log_in: Callable[[], Awaitable[Token]]) -> Token:
        keeping = asyncio.create_task(_keep(claim), name="gateway_sdk-claim")
        failed = False
        try:
            self._access.forget()  # another process may have logged in since the store was read
            return await self._find() or await self._log_in(log_in)
        except LoginError:
            failed = True
            raise
        finally:
            keeping.cancel()
            await _end(claim, failed=failed)

    async def _log_in(self, log_in: Callable[[], Awaitable[Token]]) -> Token:
        token = await log_in()
        await self._keep_token(token)
        return token


async def _end(claim: LoginClaim, *, failed: bool) -> None:
    with suppress(Exception):  # the caller's store may raise anything; the login counts
        await claim.end(failed=failed)


async def _keep(claim: LoginClaim) -> None:
    while True:
        await asyncio.sleep(_KEEP)
        with suppress(Exception):  # it is tried again in time
            await claim.keep()
