"""Hooks for whoever wants to watch: logging is built on them, tracing and metrics can be."""

from dataclasses import dataclass
from typing import Any

from gateway_sdk.operations import Operation
from gateway_sdk.outcome import Attempt, Outcome


@dataclass(frozen=True, slots=True, eq=False)
class CallInfo:
    """A call, to those who watch; the same object in all that is told of it.

    Attributes:
        operation: Which; its `path` is the interface's template, without anything personal.
        number: Counts the calls of a session from 1.
    """

    operation: Operation[Any]
    number: int


class Observer:
    """Watches the calls of a session; override what is of interest.

    Each method is called in the event loop, in the task of the call, and has to be quick. What it
    raises is logged and goes no further. An observer that is told of the start of a call is told
    of its end too. Nothing that it is told shows anything secret or personal in its texts; an
    error has the gateway's reply in its attributes, as it has for the caller.
    """

    def call_started(self, call: CallInfo) -> None:
        """Hear of a call, before anything of it is sent."""

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        """Hear of an attempt that has ended, however it did; also one that was cancelled."""

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        """Hear that the call is made again in so many seconds, after an attempt that failed."""

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        """Hear how a call ended: what it did, what it raised if anything, and after how long."""
