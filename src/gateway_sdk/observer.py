"""Hooks to observe calls: for logging, tracing and metrics."""

from dataclasses import dataclass
from typing import Any

from gateway_sdk.operations import Operation
from gateway_sdk.outcome import Attempt, Outcome


@dataclass(frozen=True, slots=True, eq=False)
class CallInfo:
    """A call, as observers see it; all hooks of one call get the same object.

    Attributes:
        operation: The operation; its `path` is the template, without personal data.
        number: The number of the call in its session, from 1.
    """

    operation: Operation[Any]
    number: int


class Observer:
    """Observes the calls of a session; override the hooks that you need.

    Each hook is called in the event loop, in the task of the call, so it must be quick. An error
    in a hook is logged and changes nothing. If `call_started` was called, `call_finished` is
    called too. The arguments show no secret or personal data in their texts; an error has the
    gateway's reply in its attributes, as it has for the caller.
    """

    def call_started(self, call: CallInfo) -> None:
        """Called before the call sends anything."""

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        """Called after each attempt: successful, failed or cancelled."""

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        """Called after a failed attempt, if the next one follows in so many seconds."""

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        """Called at the end, with the outcome, the error (None if none) and the seconds."""
