"""One login for any number of callers, and none right after a login that was of no use."""

import asyncio
import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gateway_sdk.auth.token import Token
from gateway_sdk.errors import GatewayError, LoginError


class LoginCooldown:
    """Logs in, but not again within *hold* seconds of a login that was of no use.

    Of no use is a login that failed, or the second of two whose tokens the gateway refused.
    Without this, many callers at once, or a gateway that refuses all tokens, would open one
    browser window after another.
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
        self._is_repeated = False  # the last login replaced a token of a recent login

    async def log_in(self, is_refused: Callable[[Token], bool]) -> Token:
        """Log in and return the token.

        Args:
            is_refused: Returns whether the gateway has refused a token.

        Raises:
            LoginError: The login failed, now or within *hold* seconds; or the tokens of the last
                two logins were refused.
        """
        recent = is_recent(self._ended_at, self._clock(), self._hold)
        if recent and self._failure is not None:
            raise copy.copy(self._failure)
        refused = recent and self._token is not None and is_refused(self._token)
        if refused and self._is_repeated:
            raise LoginError("the gateway refuses the access tokens of the latest logins")
        self._is_repeated = refused
        try:
            self._token, self._failure = await self._run_login(), None
        except LoginError as error:
            # A copy without the traceback, whose frames hold the login's secrets.
            self._token, self._failure = None, copy.copy(error)
            raise
        finally:
            self._ended_at = self._clock()
        return self._token

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


def is_cancelled() -> bool:
    """Return whether the current task is cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Flight(Generic[T]):
    task: asyncio.Task[T]
    waiters: int = 0


class SingleFlight(Generic[T]):
    """Runs a coroutine function once for all callers that join while it runs, per event loop.

    It goes on when the first caller is cancelled. When the last one is cancelled, it is cancelled
    too, and that caller waits until it has ended.
    """

    def __init__(self, work: Callable[[], Awaitable[T]]) -> None:
        self._work = work
        self._flights: dict[asyncio.AbstractEventLoop, _Flight[T]] = {}

    async def join(self) -> T:
        """Return or raise what the running work returns or raises; start it if none runs."""
        flight = await self._flight()
        flight.waiters += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiters -= 1
            if not flight.waiters and not flight.task.done():
                flight.task.cancel()
                await asyncio.wait([flight.task])

    async def _flight(self) -> _Flight[T]:
        loop = asyncio.get_running_loop()
        while (flight := self._flights.get(loop)) and not flight.waiters:
            # Without waiters it is being cancelled. It may hold the port of a login, which must be
            # free before the next one starts.
            await asyncio.wait([flight.task])
        if flight is None or flight.task.done():
            flight = self._flights[loop] = _Flight(asyncio.create_task(self._run()))
            flight.task.add_done_callback(lambda _: self._on_done(loop, flight))
        return flight

    async def _run(self) -> T:
        return await self._work()

    def _on_done(self, loop: asyncio.AbstractEventLoop, flight: _Flight[T]) -> None:
        if self._flights.get(loop) is flight:
            del self._flights[loop]
        if not flight.task.cancelled():
            flight.task.exception()  # marks it as retrieved: waiters get it, if there are any
