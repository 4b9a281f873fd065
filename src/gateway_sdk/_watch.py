"""Telling observers of one call."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any, Final

from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.operations import Operation
from gateway_sdk.outcome import Attempt, Outcome

LOGGER: Final = logging.getLogger("gateway_sdk")

SCOPED: Final[ContextVar[tuple[Observer, ...]]] = ContextVar("observers of a context", default=())
"""Observers of every call that is made in a context, whichever session makes it."""

RecordIntent = Callable[[Operation[Any]], Awaitable[None]]

RECORD_INTENT: Final[ContextVar[tuple[RecordIntent, ...]]] = ContextVar("intents", default=())
"""Each is awaited before a call in a context sends what must not be made twice, for the first time.
If one raises, nothing is sent."""


def tell_progress(on_progress: Callable[..., object], *how_far: object) -> None:
    """Call a progress function of the user's; what it raises is logged and decides nothing."""
    try:
        on_progress(*how_far)
    except Exception:
        LOGGER.exception("on_progress failed")


class Watch:
    """Those who watch one call, and what they are told of it."""

    def __init__(self, observers: Sequence[Observer], call: CallInfo) -> None:
        self._observers = observers
        self._call = call
        self._told = 0

    def started(self) -> None:
        """Tell that the call begins."""
        for observer in self._observers:
            self._told += 1
            self._tell(observer.call_started)

    def ended(self, attempt: Attempt) -> None:
        """Tell of an attempt."""
        for observer in self._observers:
            self._tell(observer.attempt_finished, attempt)

    def scheduled(self, attempt: Attempt, seconds: float) -> None:
        """Tell of a retry."""
        for observer in self._observers:
            self._tell(observer.retry_scheduled, attempt, seconds)

    def finished(self, outcome: Outcome, error: BaseException | None, elapsed: float) -> None:
        """Tell how the call ended: all who were told that it began, whatever one of them raises."""
        with ExitStack() as stack:  # which goes backwards
            for observer in reversed(self._observers[: self._told]):
                stack.callback(self._tell, observer.call_finished, outcome, error, elapsed)

    def _tell(self, method: Any, *what: object) -> None:
        try:
            method(self._call, *what)
        except Exception:
            # It is the user's, and must not decide what becomes of a call.
            LOGGER.exception("an observer failed")
