"""What a shared source waits for: the caller's code, its one renewal, logins of other processes."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

from gateway_sdk._lock_file import LockFile
from gateway_sdk.auth._receiver import DEFAULT_LOGIN_TIMEOUT
from gateway_sdk.auth.stores._base import TokenStore
from gateway_sdk.auth.stores._file import PrivateFileStore, prepare_folder
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import GatewayError, LoginError, TokenStoreError

T = TypeVar("T")

_TIMEOUT: Final = 60.0
"""Seconds: a store that takes longer hangs. A keyring may ask the user for its password."""

_POLL: Final = 0.5
"""Seconds between two looks at the store while another process logs in."""

_logger = logging.getLogger("gateway_sdk.auth")


async def load(store: TokenStore) -> Token | None:
    """Read a token; TokenStoreError whatever the store raises, or if it hangs."""
    loaded: Any = await _result_of(
        store.load,
        _TIMEOUT,
        lambda kind: TokenStoreError(f"the access token cannot be read: {kind}"),
    )
    if loaded is not None and not isinstance(loaded, Token):
        raise TokenStoreError("the access token cannot be read: its store returned no Token")
    return loaded


async def save(store: TokenStore, token: Token) -> None:
    """Store a token; a failure is logged only, because the token can be used."""
    try:
        await _result_of(lambda: store.save(token), _TIMEOUT, TokenStoreError)
    except GatewayError as error:
        _logger.warning("the access token is not saved for other processes: %s", error)


async def log_in(acquire: Callable[[], Awaitable[Token]], clock: Callable[[], float]) -> Token:
    token: Any = await _result_of(acquire, None, _login_error)
    if not isinstance(token, Token):
        raise LoginError("acquire must return a Token")
    if token.expired(clock(), leeway=0.0):
        raise LoginError("the login returned a token that has already expired")
    return token


def _login_error(kind: str) -> LoginError:
    how = "was cancelled" if kind == asyncio.CancelledError.__name__ else f"failed: {kind}"
    return LoginError(f"the login {how}")


async def _result_of(
    work: Callable[[], Awaitable[T]], seconds: float | None, error_of: Callable[[str], GatewayError]
) -> T:
    """Await the caller's code; of its errors only the type is told, their texts may be secret."""
    try:
        async with asyncio.timeout(seconds):
            return await work()
    except GatewayError:
        raise
    except (Exception, asyncio.CancelledError) as error:  # the caller's code may raise both
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
            raise  # this task is cancelled, and not only what it waits for
        raise error_of(type(error).__name__) from None


@asynccontextmanager
async def turn_to_log_in(
    store: TokenStore, find: Callable[[], Awaitable[Token | None]]
) -> AsyncGenerator[Token | None]:
    """Wait while another process that shares a token file logs in; yield its token, if any."""
    # Where there is no such lock, each process logs in: a second window is better than none.
    if not isinstance(store, PrivateFileStore):
        yield None
        return
    lock, found = LockFile(store.path.with_suffix(".lock")), None
    try:
        async with asyncio.timeout(DEFAULT_LOGIN_TIMEOUT):
            await asyncio.to_thread(prepare_folder, store.path.parent)
            # Not in a thread, where a cancelled task would leave the lock behind.
            while found is None and not lock.acquire():
                await asyncio.sleep(_POLL)
                found = await find()
    except (OSError, TokenStoreError) as error:  # TimeoutError is an OSError
        kind = type(error).__name__
        _logger.info("other processes may ask for a login at the same time: %s", kind)
    try:
        yield found or await find()  # another process may have logged in before the lock was free
    finally:
        with suppress(OSError):  # such as a folder that has become read-only
            lock.release()


class SingleFlight:
    """Runs a coroutine function once for all callers that join while it runs."""

    # It continues when callers are cancelled, even the last one: the next caller joins it.

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._task: asyncio.Task[None] | None = None

    async def join(self) -> None:
        task = self.start()
        await asyncio.wait([task])
        if task.cancelled():
            raise LoginError("the login was ended")
        task.result()

    def start(self) -> asyncio.Task[None]:
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

    def _running(self) -> asyncio.Task[None] | None:
        task = self._task
        is_here = task is not None and task.get_loop() is asyncio.get_running_loop()
        return task if task is not None and is_here and not task.done() else None
