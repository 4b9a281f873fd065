"""The calls in flight: each ends at its deadline, and all of them when their session is closed."""

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Self

from gateway_sdk._waiting import OwnCancellation
from gateway_sdk.auth.source import SILENT
from gateway_sdk.errors import DeadlineExceededError, GatewayError, Phase, SessionStateError
from gateway_sdk.outcome import Advice

DEFAULT_CUT: Final = 1.0
"""Seconds that calls have to end after closing has cut them. Then closing goes on without them."""

_AGAIN: Final = 0.01
"""Seconds between two tries to end a call that somebody else is cancelling."""

_TURNS: Final = 3
"""Turns of the event loop before deadlines that have passed end their calls. While code held the
loop, replies may have come, and uvloop looks at its timers first."""

_WAITS: Final[dict[Phase, str]] = {
    "token": "while it waited for an access token",
    "slot": "while it waited for one of max_connections to come free",
    "rate_limit": "while it waited for its turn under rate_limit",
    "connection": "before it had a connection to send on",
    "request": "while it sent the request",
    "reply": "while it waited for the reply",
    "backoff": "while it waited for another attempt",
}

_FORGOTTEN: Final = 600.0
"""Seconds without a wait for a token, after which another one begins anew."""


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


class CallsInFlight:
    def __init__(self) -> None:
        self.scopes: set[CallScope] = set()
        self._is_cut = False
        self._end = asyncio.Event()  # of the last call, or all were cut
        # One for all deadlines: most calls end long before theirs.
        self._timer: asyncio.TimerHandle | None = None
        self._due = math.inf  # when it looks at them

    def add(self, scope: "CallScope") -> None:
        if scope.when < self._due:
            self._look_at(scope.when)
        self.scopes.add(scope)

    def _look_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due = when
        self._timer = asyncio.get_running_loop().call_at(when, self._look)

    def _look(self, turns: int = _TURNS) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._look, turns - 1)
            return
        now, self._due = asyncio.get_running_loop().time(), math.inf
        for scope in self.scopes:
            if scope.when <= now:
                scope.end()
        later = min((one.when for one in self.scopes if one.when > now), default=math.inf)
        if later < math.inf:
            self._look_at(later)

    def remove(self, scope: "CallScope") -> None:
        self.scopes.discard(scope)
        if not self.scopes:
            self._end.set()

    def cut(self) -> None:
        if not self._is_cut:  # a second time would end the wait for those that were cut
            self._is_cut = True
            for scope in self.scopes:
                scope.cut()
            self._end.set()
            if self._timer is not None:
                self._timer.cancel()

    async def end(self, drain: float) -> None:
        """Wait for the calls, up to *drain* seconds; cut those that are left, and wait again."""
        try:
            if not self._is_cut:
                await self._wait(drain)
        finally:
            self.cut()
            await self._wait(DEFAULT_CUT)

    async def _wait(self, seconds: float) -> None:
        if self.scopes:
            self._end.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._end.wait()


class CallScope:
    """Runs one call, and cancels it at its deadline or when it is cut."""

    # Of the wait that was ended; what waits sets it when it is cancelled.
    phase: Phase = "connection"
    advice = Advice.REPEAT

    def __init__(self, calls: CallsInFlight, deadline: float | None) -> None:
        loop = asyncio.get_running_loop()
        task: Any = asyncio.current_task(loop)
        self._task: asyncio.Task[object] = task
        self._before: int = self._task.cancelling()  # by others
        self._cancellation: OwnCancellation | None = None  # made when the call has to end
        self._calls = calls
        self._deadline = math.inf if deadline is None else deadline
        self.when: float = loop.time() + self._deadline
        # By the real clock: uvloop's is that of the beginning of a turn, however long that takes.
        self._due: float = time.monotonic() + self._deadline
        self._reason: Callable[[], GatewayError] | None = None
        self._again: asyncio.TimerHandle | None = None
        calls.add(self)  # last, so that nothing stays registered after an error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._calls.remove(self)
        if self._again is not None:
            self._again.cancel()
        reason, self._reason = self._reason, None  # a cycle
        if reason and self._cancellation and self._cancellation.take_back(kind):
            raise reason() from None

    def check(self) -> None:
        """Raise the error of a call that has to end; called right before the first byte."""
        # The timer may be late, on an event loop that is busy.
        if time.monotonic() >= self._due:
            self._reason, self.phase = self._late, "connection"
        if self._reason is not None:
            raise self._reason()

    def end(self) -> None:
        self._end_with(self._late)

    def cut(self) -> None:
        self._end_with(_closed)

    def _late(self) -> GatewayError:
        text = f"the deadline of {self._deadline:g} s passed {_WAITS[self.phase]}"
        late = DeadlineExceededError(text)
        late.phase, late.advice = self.phase, self.advice
        return late

    def _end_with(self, reason: Callable[[], GatewayError]) -> None:
        self._reason = self._reason or reason
        own = self._cancellation = self._cancellation or OwnCancellation(self._task, self._before)
        if not own.cancel():
            # Whoever else is cancelling the task may take it back, as a time-out of the user does.
            if self._again is not None:
                self._again.cancel()
            loop = self._task.get_loop()
            self._again = loop.call_later(_AGAIN, self._end_with, self._reason)


def _closed() -> GatewayError:
    closed = SessionStateError("the session was closed before the reply came")
    closed.advice = Advice.REPEAT
    return closed
