"""One login for any number of callers, and none right after a login that was of no use."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from gateway_sdk.auth._login_turns import LoginTurns
from gateway_sdk.auth._store_access import is_cancelled
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import GatewayError, LoginError, TokenRejectedError


class LoginCooldown:
    """Logs in, but not again within *hold* seconds of a login that was of no use.

    Of no use is a login that failed, or the second of two whose tokens the gateway refused.
    Without this, many callers at once, or a gateway that refuses all tokens, would open one
    browser window after another.
    """

    def __init__(
        self,
        acquire: Callable[[], Awaitable[Token]],
        hold: float,
        clock: Callable[[], float],
        turns: LoginTurns,
    ) -> None:
        self._turns = turns
        self._acquire = acquire
        self._hold = hold
        self._clock = clock
        self._ended_at = 0.0
        self._token: Token | None = None
        self._failure: LoginError | None = None
        self._is_repeated = False  # the last login replaced a token of a recent login

    async def log_in(self, is_refused: Callable[[Token], bool]) -> Token:
        """Log in and return the token, which is then in the store.

        Args:
            is_refused: Returns whether the gateway has refused a token.

        Raises:
            LoginError: The login failed, now or within *hold* seconds.
            TokenRejectedError: The tokens of the last two logins were refused.
        """
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
            token = await self._turns.take(self._run_login)
        except LoginError as error:
            # A copy without the traceback, whose frames hold the login's secrets.
            self._token, self._failure, self._ended_at = None, copy.copy(error), self._clock()
            raise
        # Not after another end: a login that was cancelled says nothing of the next one.
        self._token, self._is_repeated, self._ended_at = token, refused, self._clock()
        return token

    async def _run_login(self) -> Token:
        try:
            token: Any = await self._acquire()
        except GatewayError:
            raise
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            raise LoginError("the login was cancelled") from None
        except Exception as error:  # noqa: BLE001 - the caller's function may raise anything
            raise LoginError(f"the login failed: {type(error).__name__}") from None
        if not isinstance(token, Token):
            raise LoginError("acquire must return a Token")
        if token.expired(self._clock(), leeway=0.0):
            raise LoginError("the login returned a token that has already expired")
        return token


def is_recent(moment: float, now: float, hold: float) -> bool:
    """Return whether a moment is less than `hold` seconds ago; False if it is in the future."""
    return 0 <= now - moment < hold


T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs a coroutine function once for all callers that join while it runs, per event loop.

    It goes on when callers are cancelled, the last one too: whoever joins next finds it running.
    """

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._tasks: dict[asyncio.AbstractEventLoop, asyncio.Task[T]] = {}

    async def join(self) -> T:
        """Return or raise what the running work returns or raises; start it if none runs.

        Raises:
            LoginError: The work was cancelled.
        """
        task = self.start()
        await asyncio.wait([task])
        if task.cancelled():
            raise LoginError("the login was ended")
        return task.result()

    def start(self) -> asyncio.Task[T]:
        """Return the running work; start it if none runs."""
        loop = asyncio.get_running_loop()
        task = self._tasks.get(loop)
        if task is None or task.done():
            for gone in [other for other in self._tasks if other.is_closed()]:
                del self._tasks[gone]
            task = self._tasks[loop] = loop.create_task(self._work(), name="gateway_sdk-token")
            task.add_done_callback(lambda done: self._on_done(loop, done))
        return task

    async def end(self) -> None:
        """Cancel the work that runs in this event loop, and wait until it has ended."""
        task = self._tasks.get(asyncio.get_running_loop())
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def _on_done(self, loop: asyncio.AbstractEventLoop, task: asyncio.Task[T]) -> None:
        if self._tasks.get(loop) is task:
            del self._tasks[loop]
        if not task.cancelled():
            task.exception()  # marks it as retrieved: waiters get it, if there are any
