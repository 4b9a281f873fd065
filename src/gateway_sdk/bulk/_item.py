"""One item of a run: what its calls did, and what may be done with it next."""

import asyncio
import time
from copy import copy
from typing import Any, Final, Protocol

from gateway_sdk._call.events import RunItem
from gateway_sdk._call.retry import Bucket
from gateway_sdk.bulk._limit import FixedLimit
from gateway_sdk.bulk.results import BulkResult
from gateway_sdk.errors import GatewayError, SessionStateError, StatusError
from gateway_sdk.observer import CallInfo
from gateway_sdk.outcome import Advice, Attempt, Outcome, Repeatability

_MAY_PASS: Final = frozenset({Advice.REPEAT, Advice.LOG_IN})


class OfRun(Protocol):
    """What the items of a run use of it."""

    loop: asyncio.AbstractEventLoop
    limit: FixedLimit
    budget: Bucket

    def wake(self) -> None: ...
    async def record_intent(self, run: "ItemRun", /) -> None: ...
    def withdraw(self, run: "ItemRun", /) -> None: ...


class ItemRun(RunItem):
    """It observes its calls, over all its rounds, while one of them is made."""

    is_open = False
    result: BulkResult[Any, Any] | None = None
    error: Exception | None = None  # of its last call
    failures = 0  # outside of outages
    has_failed = False  # also within one
    is_probe = False
    sends_once = False  # whether a request is sent that must not be sent twice
    intent: asyncio.Future[None] | None = None  # done when this is on the disk
    attempts = 0
    elapsed = 0.0
    began: float | None = None  # the call; None before its first step
    _intended = 0  # calls whose request is sent, or was, and was not refused
    _was_reported = False  # whether the limit has learned from an attempt of its call

    def __init__(self, run: OfRun, item: Any, digest: bytes | None) -> None:
        self._run = run
        self.item = item
        self.digest = digest
        self._calls: dict[CallInfo, tuple[Attempt, ...]] = {}
        self._ended: dict[CallInfo, Outcome] = {}  # those that are not in flight

    def begin(self, *, is_probe: bool) -> None:
        self.is_open, self.is_probe, self.began, self._was_reported = True, is_probe, None, False
        self._run.budget.calls += 1
        self._slot = self._run.limit.begin(self._run.loop.time())

    def end(self, error: Exception | None) -> None:
        self.is_open, self.error = False, error
        if self.began is not None:
            self.elapsed += time.monotonic() - self.began
        if not self._calls and isinstance(error, GatewayError):
            self.attempts += len(error.attempts)
        if not self._was_reported:
            self._report(error)
        self._run.limit.ended(self._slot)
        if isinstance(error, GatewayError) and not self.may_repeat:
            # It is that of one call, and its advice says nothing of what another one did.
            self.error = told = copy(error)
            told.__cause__ = error.__cause__
            told.outcome, told.advice = self.outcome, self.advice(error.advice)

    def _report(self, error: Exception | None) -> None:
        """Let the limit learn from a whole call, none of whose attempts a session reported."""
        status = error.status if isinstance(error, StatusError) else None if error else 200
        self._learn(status, type(error).__name__)

    def _learn(self, status: int | None, error: str | None) -> None:
        self._run.limit.attempt_ended(self._slot, self._run.loop.time(), status, error)

    def result_with(self, value: Any, *, from_journal: bool = False) -> BulkResult[Any, Any]:
        return BulkResult(
            item=self.item,
            error=self.error,
            attempts=self.attempts,
            elapsed=self.elapsed,
            from_journal=from_journal,
            _value=value,
        )

    def take_retry(self) -> bool:
        return self._run.budget.take()

    async def record_intent(self) -> None:
        if self.is_open:
            self._intended += 1
            self.sends_once = True
            await self._run.record_intent(self)

    async def withdraw_intent(self) -> None:
        if self.is_open:
            self._intended -= 1
            if not self._intended:
                self._run.withdraw(self)

    def refused(self, error: Exception, seconds: float) -> None:
        """Note that the item waits, with no call in flight: it has not begun."""
        if not self._calls:
            self._report(error)
        self._intended, self.is_probe = 0, False
        self._run.withdraw(self)
        self._wait(seconds)

    def _wait(self, seconds: float) -> None:
        self._run.limit.waits(self._slot, self._run.loop.time(), seconds)
        self._run.wake()

    def call_started(self, call: CallInfo) -> None:
        self._calls[call] = ()

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        if not self.is_open:
            return
        self.attempts += 1
        self._calls[call] += (attempt,)
        if self._is_here():
            self._was_reported = True
            self._learn(attempt.status, attempt.error)

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        del call, attempt
        if self.is_open and self._is_here():
            self._wait(seconds)

    def _is_here(self) -> bool:
        """Whether this is the run's event loop; calls may be made in those of other threads."""
        return asyncio.get_running_loop() is self._run.loop

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        del error, elapsed
        self._ended[call] = outcome

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    @property
    def outcome(self) -> Outcome:
        calls = list(self._calls)
        changing = [it for it in calls if it.operation.repeatability is not Repeatability.READ]
        counting = changing or calls[-1:]
        outcomes = [self._ended.get(call, Outcome.UNKNOWN) for call in counting]
        return max(outcomes, default=Outcome.NOT_SENT)

    @property
    def may_repeat(self) -> bool:
        """Whether it is safe to repeat the item, as far as the observed calls show."""
        for call in list(self._calls):
            if call.operation.repeatability is Repeatability.ONCE and call not in self._ended:
                return False  # the item has left it behind, and it may still be sent
        return not self.sends_once or self.outcome in (Outcome.NOT_SENT, Outcome.REFUSED)

    def advice(self, by_error: Advice) -> Advice:
        """What to do next about the item, whose error may come from one of several calls."""
        return by_error if self.may_repeat else Advice.CHECK

    def may_begin_again(self, error: GatewayError) -> bool:
        """Whether the item may be repeated after this error, and may succeed then."""
        # An error of a call that was not observed here proves nothing. A session that is closed
        # stays closed.
        observed = error.operation is None or error.operation in {
            call.operation.name for call in self._calls
        }
        may_pass = self.advice(error.advice) in _MAY_PASS
        return observed and may_pass and not isinstance(error, SessionStateError)

    def interrupted(self, message: str, kind: type[GatewayError]) -> GatewayError:
        """Return the error of a call that was ended early."""
        error = kind(message)
        if not self._calls:  # without a session, its outcome is unknown
            error.outcome = Outcome.UNKNOWN
            return error
        call, attempts = list(self._calls.items())[-1]
        error.of_call(call.operation.name, call.operation.repeatability, attempts)
        error.outcome = self.outcome
        if not self.may_repeat:
            error.repeatability = Repeatability.ONCE
        return error


def without_frames(error: Exception) -> Exception:
    """Return an error whose tracebacks are gone: they hold the frames, and all that these hold."""
    chain: list[BaseException] = [error]
    for link in chain:  # the loop adds to this list
        link.with_traceback(None)  # also of a frozen dataclass
        group: Any = link if isinstance(link, BaseExceptionGroup) else None
        more = (link.__cause__, link.__context__, *(group.exceptions if group else ()))
        chain += [other for other in more if other is not None and other not in chain]
    return error
