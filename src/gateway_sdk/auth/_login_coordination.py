"""A store as a shared source uses it, and one login for all callers and processes that share it."""

import asyncio
import copy
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from gateway_sdk._lock_file import LockFile
from gateway_sdk.auth._receiver import DEFAULT_LOGIN_TIMEOUT
from gateway_sdk.auth.stores._base import TokenStore
from gateway_sdk.auth.stores._file import PrivateFileStore, prepare_folder
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import GatewayError, LoginError, TokenRejectedError, TokenStoreError

T = TypeVar("T")

_TIMEOUT: Final = 60.0
"""Seconds: a store that takes longer hangs. A keyring may ask the user for its password."""

_SLOW: Final = 0.1
"""Seconds: a result that took longer is kept."""

_KEPT: Final = 5.0
"""The maximum seconds for which a result is kept."""

_POLL: Final = 0.5
"""Seconds between two looks at the store while another process logs in."""

_logger = logging.getLogger("gateway_sdk.auth")


class StoreAccess:
    # A result that took long, which may be an error, is kept for as long as it took, but for 5 s
    # at most. Otherwise a store that hangs would delay every call.

    def __init__(self, store: TokenStore, monotonic: Callable[[], float]) -> None:
        self.store = store
        self._monotonic = monotonic
        self._result: Token | GatewayError | None = None
        self._kept_until = -math.inf

    async def load(self) -> Token | None:
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
            if _is_own_cancellation(error):
                raise
            kind = type(error).__name__
            return TokenStoreError(f"the access token cannot be read: {kind}")
        if loaded is not None and not isinstance(loaded, Token):
            return TokenStoreError("the access token cannot be read: its store returned no Token")
        return loaded

    def forget(self) -> None:
        self._kept_until = -math.inf

    async def save(self, token: Token) -> None:
        self.forget()
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self.store.save(token)
        except (Exception, asyncio.CancelledError) as error:  # the caller's store may raise both
            if _is_own_cancellation(error):
                raise
            reason = str(error) if isinstance(error, TokenStoreError) else type(error).__name__
            _logger.warning("the access token is not saved for other processes: %s", reason)


def _is_own_cancellation(error: BaseException) -> bool:
    """Tell whether the current task is cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and bool(task and task.cancelling())


class Logins:
    """Logs in, one process at a time, but not again within *hold* seconds of a useless login."""

    # A login is useless if it failed, or if it is the second in a row whose token the gateway
    # refused. Without this pause, many callers, or a gateway that refuses all tokens, would open
    # one browser window after another.

    def __init__(
        self,
        acquire: Callable[[], Awaitable[Token]],
        hold: float,
        clock: Callable[[], float],
        *,
        access: StoreAccess,
        find: Callable[[], Awaitable[Token | None]],
        keep: Callable[[Token], Awaitable[None]],
    ) -> None:
        self._acquire = acquire
        self._hold = hold
        self._clock = clock
        self._access = access
        self._find = find
        self._keep = keep
        self._ended_at = 0.0
        self._token: Token | None = None
        self._failure: LoginError | None = None
        self._is_repeated = False  # the last login replaced a token of a recent login

    async def log_in(self, is_refused: Callable[[Token], bool]) -> Token:
        recent = is_recent(self._ended_at, self._clock(), self._hold)
        if recent and self._failure is not None:
            raise copy.copy(self._failure)
        refused = recent and self._token is not None and is_refused(self._token)
        if refused and self._is_repeated:
            raise TokenRejectedError(
                "the gateway refuses the access tokens of the latest logins", status=401
            )
        self._failure = None
        try:
            token = await self._log_in_alone()
        except LoginError as error:
            # A copy without the traceback, whose frames hold the login's secrets.
            self._token, self._failure, self._ended_at = None, copy.copy(error), self._clock()
            raise
        # Not after a cancellation: it says nothing about the next login.
        self._token, self._is_repeated, self._ended_at = token, refused, self._clock()
        return token

    async def _log_in_alone(self) -> Token:
        """Log in while other processes that share a token file wait, or take their token."""
        # Where there is no such lock, each process logs in: a second window is better than none.
        store = self._access.store
        if not isinstance(store, PrivateFileStore):
            return await self._log_in()
        lock = LockFile(store.path.with_suffix(".lock"))
        try:
            async with asyncio.timeout(DEFAULT_LOGIN_TIMEOUT):
                await asyncio.to_thread(prepare_folder, store.path.parent)
                # Not in a thread, where a cancelled task would leave the lock behind.
                while not lock.acquire():
                    await asyncio.sleep(_POLL)
                    if (token := await self._find()) is not None:
                        return token
        except (OSError, TokenStoreError) as error:  # TimeoutError is an OSError
            kind = type(error).__name__
            _logger.info("other processes may ask for a login at the same time: %s", kind)
        try:
            self._access.forget()  # another process may have logged in since the store was read
            return await self._find() or await self._log_in()
        finally:
            with suppress(OSError):  # such as a folder that has become read-only
                lock.release()

    async def _log_in(self) -> Token:
        try:
            token: Any = await self._acquire()
        except GatewayError:
            raise
        except (Exception, asyncio.CancelledError) as error:  # the caller's function may raise both
            if _is_own_cancellation(error):
                raise
            is_cancelled = isinstance(error, asyncio.CancelledError)
            how = "was cancelled" if is_cancelled else f"failed: {type(error).__name__}"
            raise LoginError(f"the login {how}") from None
        if not isinstance(token, Token):
            raise LoginError("acquire must return a Token")
        if token.expired(self._clock(), leeway=0.0):
            raise LoginError("the login returned a token that has already expired")
        await self._keep(token)
        return token


def is_recent(moment: float, now: float, hold: float) -> bool:
    """Return whether a moment is less than `hold` seconds ago; False if it is in the future."""
    return 0 <= now - moment < hold


class SingleFlight(Generic[T]):
    """Runs a coroutine function once for all callers that join while it runs."""

    # It continues when callers are cancelled, even the last one: the next caller joins it.

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None

    async def join(self) -> T:
        task = self.start()
        await asyncio.wait([task])
        if task.cancelled():
            raise LoginError("the login was ended")
        return task.result()

    def start(self) -> asyncio.Task[T]:
        task = self._running()
        if task is None:
            task = self._task = asyncio.create_task(self._work(), name="gateway_sdk-token")
            # Its error is retrieved here: perhaps nobody waits for it.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    async def end(self) -> None:
        """Cancel the work that runs in this event loop, and wait until it has ended."""
        if (task := self._running()) is not None:
            task.cancel()
            await asyncio.wait([task])

    def _running(self) -> asyncio.Task[T] | None:
        task = self._task
        is_here = task is not None and task.get_loop() is asyncio.get_running_loop()
        return task if task is not None and is_here and not task.done() else None
