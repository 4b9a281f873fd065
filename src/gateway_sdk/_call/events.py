"""What observers learn about one call, and what is logged about it under `gateway_sdk`."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any, Final

from gateway_sdk._config import LOGGER
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.operations import Operation
from gateway_sdk.outcome import Attempt, Outcome

CONTEXT_OBSERVERS: Final[ContextVar[tuple[Observer, ...]]] = ContextVar(
    "observers of a context", default=()
)
"""Observers of every call that is made in a context, with any session."""

RecordIntent = Callable[[Operation[Any]], Awaitable[None]]

RECORD_INTENT: Final[ContextVar[tuple[RecordIntent, ...]]] = ContextVar("intents", default=())
"""Each is awaited before the first attempt of a call in a context that must not be sent twice.
If one raises, nothing is sent."""


class Watch:
    """The observers of one call."""

    def __init__(self, observers: Sequence[Observer], call: CallInfo) -> None:
        self._observers = observers
        self._call = call
        self._told = 0

    def started(self) -> None:
        """Report that the call begins."""
        for observer in self._observers:
            self._told += 1
            self._tell(observer.call_started)

    def ended(self, attempt: Attempt) -> None:
        """Report an attempt."""
        for observer in self._observers:
            self._tell(observer.attempt_finished, attempt)

    def scheduled(self, attempt: Attempt, seconds: float) -> None:
        """Report a retry."""
        for observer in self._observers:
            self._tell(observer.retry_scheduled, attempt, seconds)

    def finished(self, outcome: Outcome, error: BaseException | None, elapsed: float) -> None:
        """Report the end of the call to each observer that knows of it, even if another raises."""
        with ExitStack() as stack:  # runs the callbacks in reverse order
            for observer in reversed(self._observers[: self._told]):
                stack.callback(self._tell, observer.call_finished, outcome, error, elapsed)

    def _tell(self, method: Any, *what: object) -> None:
        try:
            method(self._call, *what)
        except Exception:  # noqa: BLE001 - ruff does not know that LOGGER is a logger
            # An observer is the user's code; its error must not change the call.
            LOGGER.exception("an observer failed")


class LogObserver(Observer):
    """Logs calls: retries at INFO, everything else at DEBUG."""

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        """Log an attempt, with its status or its error."""
        LOGGER.debug(
            "%s #%d: %s, %s, %.3f s",
            call.operation.name,
            call.number,
            attempt.status or attempt.error,
            attempt.outcome.name,
            attempt.elapsed,
        )

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        """Log that an attempt follows, and why."""
        LOGGER.info(
            "%s #%d: %s; again in %.2f s",
            call.operation.name,
            call.number,
            attempt.status or attempt.error,
            seconds,
        )

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        """Log a call, with the method and path of its operation as the interface writes them."""
        operation = call.operation
        LOGGER.debug(
            "%s #%d (%s %s): %s, %s, %.3f s in all",
            operation.name,
            call.number,
            operation.method,
            operation.path,
            type(error).__name__ if error else "done",
            outcome.name,
            elapsed,
        )
