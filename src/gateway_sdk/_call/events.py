"""What observers learn about one call, and what is logged about it under `gateway_sdk`."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from itertools import product
from typing import Any, Final

from gateway_sdk._checks import is_async
from gateway_sdk._http.request import (
    NO_VALUES,
    RawHeaders,
    check_header_name,
    check_header_value,
    raw_headers,
    replace_fields,
)
from gateway_sdk._python import Log, tell
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.outcome import OUTCOME_TEXT, Attempt, Outcome

_logger = Log("gateway_sdk")


class RunItem(Observer, ABC):
    """An item of a bulk run: it observes the calls that are made in its context, until it ends."""

    # A task that the item has started may outlive it: its calls are none of the item's then.
    is_open = True

    @abstractmethod
    def take_retry(self) -> bool:
        """Take a retry out of the budget of the run; False if none is left."""

    async def record_intent(self) -> None:
        """Called when a request that must not be sent twice is about to be sent."""

    async def withdraw_intent(self) -> None:
        """Called when such a request was not carried out, before the next attempt waits."""


ITEMS: Final[ContextVar[tuple[RunItem, ...]]] = ContextVar("items of bulk runs", default=())


class Watch:
    __slots__ = ("_began", "_observers", "_told", "call")

    def __init__(self, observers: Sequence[Observer], call: CallInfo) -> None:
        self._observers = observers
        self.call = call
        self._told = 0
        self._began = time.monotonic()

    def started(self) -> None:
        for observer in self._observers:
            self._told += 1
            tell(observer.call_started, self.call)

    def begun(self, number: int, fields: RawHeaders) -> RawHeaders:
        """Return the fields with those that the observers add to this attempt, or replace."""
        for observer in self._observers:
            if more := tell(_added_fields, observer, self.call, number):
                fields = replace_fields(fields, more)
        return fields

    def ended(self, attempt: Attempt) -> None:
        for observer in reversed(self._observers):
            tell(observer.attempt_finished, self.call, attempt)

    def scheduled(self, attempt: Attempt, seconds: float) -> None:
        for observer in self._observers:
            tell(observer.retry_scheduled, self.call, attempt, seconds)

    def finished(self, outcome: Outcome, error: BaseException | None) -> None:
        """Report the end of the call to each observer that knows of it, even if another raises."""
        elapsed = time.monotonic() - self._began
        with ExitStack() as last_first:
            for observer in self._observers[: self._told]:
                hook = observer.call_finished
                last_first.callback(tell, hook, self.call, outcome, error, elapsed)


def _added_fields(observer: Observer, call: CallInfo, number: int) -> RawHeaders:
    given = observer.attempt_started(call, number) or NO_VALUES
    for name, value in given.items():
        check_header_name(name)
        check_header_value("a header field", value)
    return raw_headers(given)


def check_observers(name: str, observers: object) -> tuple[Observer, ...]:
    given: tuple[Any, ...] = tuple(observers) if isinstance(observers, Iterable) else (None,)
    if not all(isinstance(observer, Observer) for observer in given):
        raise ConfigurationError("must be an iterable of instances of Observer", setting=name)
    hooks = [name for name in vars(Observer) if not name.startswith("_")]
    for observer, hook in product(given, hooks):
        if is_async(getattr(observer, hook)):
            raise ConfigurationError(
                f"{type(observer).__name__}.{hook} is async: the methods of an observer are plain "
                "functions, which may start a task"
            )
    return given


def tell_outcome(
    name: str, outcome: Outcome, error: BaseException | None, watch: Watch | None
) -> None:
    """Say what became of a write whose error is none of this package, and does not carry it."""
    what = OUTCOME_TEXT[outcome]
    text = f"{name}: {what}"
    if isinstance(error, Exception):  # of a hook, a transport or a token source of the user
        if text not in getattr(error, "__notes__", ()):  # it may be raised again and again
            error.add_note(text)
    elif outcome >= Outcome.UNKNOWN:
        line = "%s: %s (ended by %s; %s)"
        _logger.warning(line, _call(name, watch), what, type(error).__name__, outcome.name)


def log_repeat(name: str, watch: Watch | None, made: Sequence[Attempt], how: str) -> None:
    """Log that another attempt follows; without one before it, there was no token."""
    what = made[-1].status or made[-1].error if made else "no token"
    _logger.info("%s: %s; again %s", _call(name, watch), what, how)


def _call(name: str, watch: Watch | None) -> str:
    return name if watch is None else f"{name} #{watch.call.number}"


class LogObserver(Observer):
    """Logs attempts and calls at DEBUG."""

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        name, number, what = call.operation.name, call.number, attempt.status or attempt.error
        outcome, elapsed = attempt.outcome.name, attempt.elapsed
        _logger.debug("%s #%d: %s, %s, %.3f s", name, number, what, outcome, elapsed)

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        name, what = call.operation.name, type(error).__name__ if error else "done"
        path = f"{call.operation.method} {call.operation.path}"
        line = "%s #%d (%s): %s, %s, %.3f s in all"
        _logger.debug(line, name, call.number, path, what, outcome.name, elapsed)
