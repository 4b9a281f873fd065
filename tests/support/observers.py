"""An observer that writes down what it is told."""

import asyncio
from typing import Any, Final

from gateway_sdk import Attempt, CallInfo, Observer, Outcome

Event = tuple[Any, ...]
HOOKS: Final = [name for name in vars(Observer) if not name.startswith("_")]


class Book(Observer):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []  # the method, the number of the call, and the rest
        self.calls: list[CallInfo] = []  # the calls that were named
        self.tasks: set[asyncio.Task[Any] | None] = set()  # the tasks in which it was told

    def _note(self, event: str, call: CallInfo, *rest: object) -> None:
        self.events.append((event, call.number, *rest))
        self.calls.append(call)
        self.tasks.add(asyncio.current_task())

    def call_started(self, call: CallInfo) -> None:
        self._note("started", call)

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        assert attempt.elapsed >= 0
        self._note("attempt", call, attempt.outcome.name, attempt.status, attempt.error)

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        self._note("retry", call, attempt.status or attempt.error, seconds)

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        assert elapsed >= 0
        self._note("finished", call, outcome.name, error and type(error).__name__)
