"""Hooks to observe calls and bulk runs: for logging, tracing and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway_sdk.operations import Operation
from gateway_sdk.outcome import Attempt, Outcome


@dataclass(slots=True, eq=False)  # made for each call: a frozen one takes three times as long
class CallInfo:
    """A call, as observers see it; all hooks of one call get the same object.

    Attributes:
        operation: The operation; its `path` is the template, without personal data.
        number: The number of the call in its session, from 1.
        base_url: The gateway's address, without a slash at its end.
        host: The gateway's host.
        port: The gateway's port, also if `base_url` does not show it.
    """

    operation: Operation[Any]
    number: int
    base_url: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, eq=False)
class RunInfo:
    """A bulk run, as observers see it; all hooks of one run get the same object.

    Attributes:
        total: The number of items; None if *items* has no length.
    """

    total: int | None


class Observer:
    """Observes the calls of a session, or a bulk run; override the hooks that you need.

    The hooks of a call are called in the event loop, in the task of the call, so they must be
    quick. Those of a run are called where its results are taken. An error in a hook is logged and
    changes nothing. If `call_started` was called, `call_finished` is called too; the same holds
    for `run_started` and `run_finished`. Of several observers, the first one is called first when
    something starts and last when it has ended. The arguments show no secret or personal data in
    their texts; an error has the gateway's reply in its attributes, as it has for the caller.
    """

    def call_started(self, call: CallInfo) -> None:
        """Called before the call sends anything."""

    def attempt_started(self, call: CallInfo, number: int) -> Mapping[str, str] | None:
        """Called before each attempt, with its number in the call, from 1.

        Returns header fields that this attempt sends too, or None. They replace those of the
        session's `headers`; if one may not be set there, that is logged and none of them is sent.
        """

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        """Called after each attempt: successful, failed or cancelled."""

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        """Called after a failed attempt, if the next one follows in *seconds* seconds."""

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        """Called at the end, with the outcome, the error (None if none) and the seconds."""

    def run_started(self, run: RunInfo) -> None:
        """Called before a bulk run takes its first item."""

    def item_started(self, run: RunInfo, number: int) -> None:
        """Called before an item is begun, with its number in the run, from 1.

        Not called for items whose result is known already. It is called in the context
        (`contextvars`) of the item's task: what it sets there holds for the item's calls only.
        """

    def run_finished(
        self, run: RunInfo, done: int, failed: int, error: BaseException | None, elapsed: float
    ) -> None:
        """Called at the end of a bulk run, when nothing runs any more.

        *done* results were given to the caller, *failed* of them errors. *error* is what ended the
        run early (`GeneratorExit` if the caller left the loop), or None; *elapsed* is in seconds.
        """
