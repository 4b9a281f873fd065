"""Observes a run: the calls of each item, its waits after a 429, and the user's observers."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, Final

from gateway_sdk._call.events import RunItem, tell
from gateway_sdk._call.retry import Bucket
from gateway_sdk.bulk._limit import Ticket
from gateway_sdk.bulk.results import BulkResult
from gateway_sdk.errors import (
    DeadlineExceededError,
    GatewayError,
    RateLimitedError,
    SessionStateError,
)
from gateway_sdk.observer import CallInfo, Observer, RunInfo
from gateway_sdk.outcome import Advice, Attempt, Outcome, Repeatability, outcome_of

_FIRST_WAIT: Final = 0.5
"""Seconds, as in `RetryPolicy.backoff`, if the gateway does not say; each refusal doubles them."""

_LONGEST_WAIT: Final = 30.0
"""Seconds at which the doubling stops: an item is then tried twice a minute."""

_MAY_PASS: Final = frozenset({Advice.REPEAT, Advice.LOG_IN})

_SPREAD: Final = 1.0
"""The largest random addition in seconds, so that items are not repeated together."""


class ItemObserver(RunItem):
    def __init__(
        self,
        ticket: Ticket,
        budget: Bucket,
        record_intent: Callable[["ItemObserver"], Awaitable[None]],
        withdraw: Callable[[], Awaitable[None]],
    ) -> None:
        self.attempts = 0
        self._budget = budget
        self._record_intent = record_intent
        self._withdraw = withdraw
        self._intended = 0  # calls whose request is sent, or was, and was not refused
        self._loop = asyncio.get_running_loop()
        self.sends_once = False  # whether a request is sent that must not be sent twice
        self._ticket = ticket
        self._calls: dict[CallInfo, tuple[Attempt, ...]] = {}
        self._in_flight: set[CallInfo] = set()

    def take_retry(self) -> bool:
        return self._budget.take()

    async def record_intent(self) -> None:
        if self.is_open:
            self._intended += 1
            await self._record_intent(self)

    async def withdraw_intent(self) -> None:
        if self.is_open:
            self._intended -= 1
            if not self._intended:
                await self._withdraw()

    async def withdraw(self) -> None:
        """Note that the item waits, with no call in flight: it has not begun."""
        self._intended = 0
        await self._withdraw()

    def call_started(self, call: CallInfo) -> None:
        self._calls[call] = ()
        self._in_flight.add(call)

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        if not self.is_open:
            return
        self.attempts += 1
        self._calls[call] += (attempt,)
        if self._is_here():
            self._ticket.attempt_finished(attempt)

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        del call, attempt
        if self.is_open and self._is_here():
            self._ticket.retry_scheduled(seconds)

    def _is_here(self) -> bool:
        """Whether this is the run's event loop; calls may be made in those of other threads."""
        return asyncio.get_running_loop() is self._loop

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        del outcome, error, elapsed
        if self.is_open:  # else it was in flight when the item ended
            self._in_flight.discard(call)

    def _outcome_of(self, call: CallInfo) -> Outcome:
        outcome = outcome_of(self._calls[call], call.operation.repeatability)
        return max(outcome, Outcome.UNKNOWN) if call in self._in_flight else outcome

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    @property
    def outcome(self) -> Outcome:
        outcomes = [(call.operation.repeatability, self._outcome_of(call)) for call in self._calls]
        changing = [outcome for kind, outcome in outcomes if kind is not Repeatability.READ]
        return max(changing or [outcome for _, outcome in outcomes[-1:]], default=Outcome.NOT_SENT)

    @property
    def may_repeat(self) -> bool:
        """Whether it is safe to repeat the item, as far as the observed calls show."""
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

    def interrupted(self, message: str, *, by_deadline: bool) -> GatewayError:
        error = DeadlineExceededError(message) if by_deadline else GatewayError(message)
        if not self._calls:  # without a session, its outcome is unknown
            error.outcome = Outcome.UNKNOWN
            return error
        call, attempts = list(self._calls.items())[-1]
        error.of_call(call.operation.name, call.operation.repeatability, attempts)
        error.outcome = self.outcome
        if self.sends_once:
            error.repeatability = Repeatability.ONCE
        return error


class RunObservers:
    def __init__(self, observers: Sequence[Observer], run: RunInfo) -> None:
        self._observers = observers
        self._run = run
        self._items = self._done = self._failed = 0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()
        with ExitStack() as ends:
            for observer in self._observers:
                ends.push(partial(self._finished, observer))
                tell(observer.run_started, self._run)
            self._ends = ends.pop_all()

    def item_started(self) -> None:
        self._items += 1
        for observer in self._observers:
            tell(observer.item_started, self._run, self._items)

    def count(self, result: BulkResult[Any, Any]) -> None:
        self._done += 1
        self._failed += result.error is not None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ends.__exit__(kind, error, traceback)

    def _finished(
        self, observer: Observer, _: object, error: BaseException | None, *__: object
    ) -> None:
        elapsed = time.monotonic() - self._began
        tell(observer.run_finished, self._run, self._done, self._failed, error, elapsed)


class Backoff:
    def __init__(self, patience: float | None) -> None:
        self._patience = patience  # seconds in total; None for no limit
        self._next_wait = _FIRST_WAIT
        self._waited = 0.0

    def after(self, error: RateLimitedError) -> float | None:
        """Return the seconds to wait, at least those asked for; None if they are too many."""
        asked = self._next_wait if error.retry_after is None else error.retry_after
        self._next_wait = min(2 * self._next_wait, _LONGEST_WAIT)
        # No security needed here: the random part only spreads the items.
        wait = asked + random.random() * min(max(asked, _FIRST_WAIT), _SPREAD)  # noqa: S311
        self._waited += wait
        if self._patience is not None and self._waited > self._patience:
            return None
        return wait
