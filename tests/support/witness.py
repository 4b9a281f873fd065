"""Compares what a session says about its calls with what a server received."""

from collections import Counter
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from gateway_sdk import Attempt, GatewayError, GatewaySession, Observer, Outcome, Repeatability
from gateway_sdk.observer import CallInfo
from gateway_sdk.outcome import PASSING
from tests.interface_table import REPEATABILITY
from tests.support.calls import CALLS, Call
from tests.support.failing_server import CALL, Receipt

_SUCCESS: Final = range(200, 300)
_REFUSAL: Final = range(400, 500)
_PROVEN_UNDONE: Final = ([429], [401])


@dataclass(slots=True, eq=False)
class Record:
    """A call, as its session tells of it."""

    call: str  # its name among the calls of a test
    operation: str
    attempts: list[Attempt] = field(default_factory=list)  # as told to an observer
    outcome: Outcome | None = None  # as told to an observer when it ended; None until then
    error: GatewayError | None = None  # what it raised, unless it was cancelled
    value: Any = None

    @property
    def sent(self) -> int:
        return sum(attempt.outcome is not Outcome.NOT_SENT for attempt in self.attempts)


_CURRENT: ContextVar[Record] = ContextVar("_CURRENT")


class Witness(Observer):
    def __init__(self) -> None:
        self.records: list[Record] = []
        self._by_number: dict[int, Record] = {}

    async def call(
        self, gateway: GatewaySession, operation: str, call: str = "1", how: Call | None = None
    ) -> Record:
        made = how or CALLS[operation]
        record = Record(call, operation)
        self.records.append(record)
        _CURRENT.set(record)
        try:
            record.value = await made(gateway.with_options(headers={CALL: call}))
        except GatewayError as error:
            record.error = error
        return record

    def call_started(self, call: CallInfo) -> None:
        self._by_number[call.number] = _CURRENT.get()

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        self._by_number[call.number].attempts.append(attempt)

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        self._by_number[call.number].outcome = outcome


def lies(record: Record, receipts: Sequence[Receipt]) -> list[str]:
    """Say in what a record contradicts what the server received for this call."""
    found: list[str] = []
    outcomes = Counter(attempt.outcome for attempt in record.attempts)
    answers = [status for receipt in receipts for status in receipt.answers]
    if len(receipts) > record.sent:
        found.append("more came than was sent")
    if outcomes[Outcome.APPLIED] > sum(status in _SUCCESS for status in answers):
        found.append("nobody said that it was applied")
    if outcomes[Outcome.REFUSED] > sum(status in _REFUSAL for status in answers):
        found.append("nobody said that it was refused")
    if REPEATABILITY[record.operation] is Repeatability.ONCE and any(
        receipt.answers not in _PROVEN_UNDONE for receipt in receipts[:-1]
    ):
        found.append("sent again what may have been done")
    if record.value is not None and record.value != record.call:
        found.append("took another call's reply for its own")
    if record.error is not None and record.error.attempts != tuple(record.attempts):
        found.append("told the caller something else than the observer")
    return found


def may_go_on(attempt: Attempt, operation: str) -> bool:
    """Tell whether a call of an operation may be tried again after an attempt."""
    repeatability = REPEATABILITY[operation]
    if attempt.outcome is Outcome.NOT_SENT or attempt.status == 429:
        return True
    if repeatability is Repeatability.ONCE or attempt.error is None:
        return False
    if attempt.status is None:
        return True
    if attempt.error.startswith("Reply"):
        return repeatability is Repeatability.READ
    return attempt.status in PASSING
