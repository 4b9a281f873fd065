"""One item of a run: what its calls did, what may be done with it next, and what is kept of it."""

import asyncio
import time
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, Final, Protocol

from gateway_sdk._call.events import RunItem
from gateway_sdk._call.retry import Bucket
from gateway_sdk.bulk._ledger import Answered, Recorder, Said, error_of, failure_of, without_frames
from gateway_sdk.bulk._limit import FixedLimit
from gateway_sdk.bulk._outage import MAY_PASS, Outages
from gateway_sdk.bulk._source import item_text, value_text
from gateway_sdk.bulk.results import BulkResult, Entry, LoadText, State, StoredValue, value_of
from gateway_sdk.errors import (
    ConfigurationError,
    DeadlineExceededError,
    GatewayError,
    InvalidArgumentError,
    JournalError,
    SessionStateError,
    StatusError,
)
from gateway_sdk.observer import CallInfo
from gateway_sdk.outcome import OUTCOME_TEXT, Advice, Attempt, Outcome, Repeatability

_TO_RETURN: Final = 1.0
"""Seconds for which a function may go on after its last write, once its run has failed."""


class OfRun(Protocol):
    """What the items of a run use of it."""

    loop: asyncio.AbstractEventLoop
    limit: FixedLimit
    outages: Outages
    budget: Bucket
    recorder: Recorder
    is_closing: bool
    dump: Callable[[Any], Any] | None
    load: Callable[[Any], Any] | None

    def wake(self) -> None: ...
    def fail(self, error: BaseException) -> None: ...
    def cut(self) -> None: ...
    def finish(self, work: "Work", result: BulkResult[Any, Any] | None) -> None: ...


class Work(RunItem):
    """It observes its calls, over all its rounds, while one of them is made."""

    is_open = False
    result: BulkResult[Any, Any] | None = None
    error: Exception | None = None  # of its last call
    failures = 0  # outside of outages
    has_failed = False  # also within one
    is_probe = False
    attempts = 0
    elapsed = 0.0
    due = 0.0  # when it may be called again, by the loop's clock
    began: float | None = None  # the call; None before its first step
    _sends_once = False  # whether a request is sent that must not be sent twice
    _intent: asyncio.Future[None] | None = None  # done when this is on the disk
    _intended = 0  # calls whose request is sent, or was, and was not refused
    _over = 0  # of these, those that had ended when no write was in flight
    _has_adopted = False  # whether the result of its call is that of another run
    _is_done = False  # and `load` has failed
    _was_reported = False  # whether the limit has learned from an attempt of its call

    def __init__(self, run: OfRun, item: Any, digest: bytes | None, subject: object) -> None:
        self._run = run
        self.item = item
        self.digest = digest
        self.subject = subject
        self._calls: dict[CallInfo, tuple[Attempt, ...]] = {}
        self._ended: dict[CallInfo, Outcome] = {}  # those that are not in flight
        self._writing: set[CallInfo] = set()  # those that are, and do not only read

    def begin(self, *, is_probe: bool) -> None:
        self.is_open, self.is_probe, self.began, self._was_reported = True, is_probe, None, False
        self._run.budget.calls += 1
        self._slot = self._run.limit.begin(self._run.loop.time())

    def end(self, error: Exception | None) -> None:
        self.is_open = False
        if self.began is not None:
            self.elapsed += time.monotonic() - self.began
        if not (self._calls or self._has_adopted) and isinstance(error, GatewayError):
            self.attempts += len(error.attempts)
        if self._run.limit.learns and not self._was_reported:
            self._report(error)
        self._run.limit.ended(self._slot)
        self.error = error and self._of_item(error)

    def _of_item(self, error: Exception) -> Exception:
        """Return an error that says what the item did: it may be that of one of several calls."""
        if not isinstance(error, GatewayError):
            return error
        said: Any = self._said(error)
        if said == (error.outcome, error.advice, error.writes):
            return error
        told = copy(error)
        told.__cause__ = error.__cause__
        told.outcome, told.advice, told.writes = said
        return told

    def _said(self, error: Exception) -> Said:
        outcome, writes = self.outcome, self._writes(error)
        advice = Advice.REPEAT  # only the user knows whether it may succeed then, and asks for it
        if isinstance(error, GatewayError):
            outcome = error.outcome if outcome is None else outcome
            advice, writes = error.advice, writes or error.writes
        return outcome, advice if self.may_repeat else Advice.CHECK, writes

    def _report(self, error: Exception | None) -> None:
        """Let the limit learn from a whole call, none of whose attempts a session reported."""
        status = error.status if isinstance(error, StatusError) else None if error else 200
        self._learn(status, type(error).__name__)

    def _learn(self, status: int | None, error: str | None) -> None:
        self._run.limit.attempt_ended(self._slot, self._run.loop.time(), status, error)

    def adopt(self, result: BulkResult[Any, Any]) -> Any:
        """Return the value that the item has in another run, or raise its error."""
        self._has_adopted = True
        self.attempts += result.attempts
        self.began = time.monotonic() - result.elapsed
        if result.error is not None:
            raise result.error
        return value_of(result)

    def take_retry(self) -> bool:
        return not self._run.is_closing and self._run.budget.take()

    async def record_intent(self) -> None:
        """Wait until the ledger has it: no later run sends the item again."""
        if not self.is_open:
            return
        if self._run.is_closing:
            raise unsent("nothing was sent: the run ends", GatewayError)
        if self._run.outages.now and not (self.is_probe or self._intended):
            raise unsent("nothing was sent: the run waits for the end of an outage", GatewayError)
        self._intended += 1
        self._sends_once = True
        if self._run.recorder.ledger is None:
            return
        if not self._is_here():
            raise SessionStateError(
                "the call is made in another event loop than its bulk run, so the journal cannot "
                "record it: make it in the event loop of the run"
            )
        if self._intent is None:
            self._intent = self._run.loop.create_future()
            self._note(State.BEGUN, partial(_resolve, self._intent))
        # Other calls of the item may wait for it too: whoever is cancelled leaves it alone.
        await asyncio.wait([intent := self._intent])
        if (error := intent.exception()) is None:
            return
        if not isinstance(error, InvalidArgumentError):  # which refuses this item alone
            self._run.fail(error)
        raise _of_call(error)

    async def withdraw_intent(self) -> None:
        if self.is_open:
            self._intended -= 1
            if not self._intended:
                self.withdraw()

    def withdraw(self) -> None:
        """Note that the item has not begun: it waits, or is repeated later."""
        self._intended = self._over = 0
        if self._intent is not None:
            self._intent = None
            self._note(State.INTERRUPTED, _raise_error)

    def _note(self, state: State, answered: Answered) -> None:
        noted = Entry(key=self.digest or b"", state=state, once=True, item=item_text(self.item))
        self._run.recorder.ask("write", noted, answered)

    def refused(self, error: Exception, seconds: float) -> None:
        """Note that the item waits, with no call in flight: it has not begun."""
        if not self._calls:
            self._report(error)
        self.is_probe = False
        self.withdraw()
        self._wait(seconds)

    def _wait(self, seconds: float) -> None:
        self._run.limit.waits(self._slot, self._run.loop.time(), seconds)
        self._run.wake()

    def call_started(self, call: CallInfo) -> None:
        self._calls[call] = ()
        if call.operation.repeatability is not Repeatability.READ:
            self._writing.add(call)

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
        self._writing.discard(call)
        if self._writing:
            return
        self._over = self._intended
        if self.is_open and self._run.is_closing and self._is_here():
            self._run.loop.call_later(_TO_RETURN, self._run.cut)

    @property
    def outcome(self) -> Outcome | None:
        """What the gateway did, over all calls; None if no session reported one."""
        if self._is_done:
            return Outcome.APPLIED
        calls = list(self._calls)
        changing = [it for it in calls if it.operation.repeatability is not Repeatability.READ]
        counting = changing or calls[-1:]
        return max((self._ended.get(call, Outcome.UNKNOWN) for call in counting), default=None)

    @property
    def has_sent_once(self) -> bool:
        """Whether a call is in flight that must not be sent twice, and was not refused."""
        return self._intended > self._over and (self._intent is None or self._intent.done())

    @property
    def may_repeat(self) -> bool:
        """Whether it is safe to repeat the item, as far as the observed calls show."""
        for call in list(self._calls):
            if call.operation.repeatability is Repeatability.ONCE and call not in self._ended:
                return False  # the item has left it behind, and it may still be sent
        return not self._sends_once or (self.outcome or Outcome.NOT_SENT) <= Outcome.REFUSED

    def _writes(self, error: Exception | None) -> str:
        """Say what each write did, if one may have done something that the error is not about."""
        if self._is_done:
            return ""
        name = error.operation if isinstance(error, GatewayError) else None
        failed = [call for call in self._calls if call.operation.name == name][-1:]
        told = [
            call
            for call in self._calls
            if call.operation.repeatability is not Repeatability.READ
            and (call in failed or self._ended.get(call, Outcome.UNKNOWN) >= Outcome.UNKNOWN)
        ]
        outcomes = [self._ended.get(call, Outcome.UNKNOWN) for call in told]
        if told == failed and outcomes == [self.outcome]:
            return ""
        pairs = zip(told, outcomes, strict=True)
        texts = [f"{call.operation.name}: {OUTCOME_TEXT[done]}" for call, done in pairs]
        return "; ".join(dict.fromkeys(texts))  # each once, over the rounds

    def may_begin_again(self, error: GatewayError) -> bool:
        """Whether the item may be repeated after this error, and may succeed then."""
        # An error of a call that was not observed here proves nothing. A session that is closed
        # stays closed.
        observed = {None, *(call.operation.name for call in self._calls)}
        _, advice, _ = self._said(error)
        is_observed = self._has_adopted or error.operation in observed
        return is_observed and advice in MAY_PASS and not isinstance(error, SessionStateError)

    def lacks_setting(self, error: GatewayError) -> bool:
        """Whether a call of the item has failed for a setting of its session."""
        is_observed = error.operation in {call.operation.name for call in self._calls}
        return isinstance(error, ConfigurationError) and is_observed

    def interrupted(self, message: str, kind: type[GatewayError]) -> GatewayError:
        """Return the error of a call that was ended early."""
        error = kind(message)
        if not self._calls:  # without a session, its outcome is unknown
            is_late = isinstance(error, DeadlineExceededError)
            error.outcome = Outcome.UNKNOWN
            error.advice = Advice.REPEAT if is_late else Advice.FIX  # only the user knows more
            return error
        call, attempts = list(self._calls.items())[-1]
        return error.of_call(call.operation.name, call.operation.repeatability, attempts)

    def result_with(self, value: Any, *, from_journal: bool = False) -> BulkResult[Any, Any]:
        outcome, advice, _ = (None, None, "") if self.error is None else self._said(self.error)
        return BulkResult(
            item=self.item,
            error=self.error,
            outcome=Outcome.UNKNOWN if self.error and outcome is None else outcome,
            advice=advice,
            attempts=self.attempts,
            elapsed=self.elapsed,
            from_journal=from_journal,
            _value=value,
        )

    def keep(self, value: Any) -> None:
        """Finish with a value or the error, after the ledger has it."""
        if self._run.recorder.ledger is None:
            self._run.finish(self, self.result_with(value))
        else:
            entry = self._entry(value)
            self._run.recorder.ask("write", entry, partial(self._finish, entry))
            self._run.wake()  # another call may begin meanwhile

    def recall(self) -> None:
        """Finish with what the ledger has."""
        self._run.recorder.ask("read", self.digest, partial(self._finish, None))

    def _finish(self, written: Entry | None, answer: Any) -> None:
        result, is_lost = None, isinstance(answer, Exception)
        try:
            if is_lost and written:
                self._run.recorder.unwritten.append(written)
            if is_lost and not (written and written.once):
                raise answer
            entry: Entry = written or answer
            if written is None:
                self.attempts, self.elapsed = entry.attempts, entry.elapsed
                self.error = None if entry.failure is None else error_of(entry.failure)
            # The value of the ledger, as every later result of an equal item has it: else a run
            # that goes on after a kill would give other types than one that was not interrupted.
            value = None if self.error else self._loaded(entry)
            result = self.result_with(value, from_journal=written is None)
            if is_lost:  # the user gets the result all the same: it cannot be had again
                raise answer
        finally:
            self._run.finish(self, result)

    def _loaded(self, entry: Entry) -> Any:
        stored = StoredValue(entry.value or "null")
        if (load := self._run.load) is None:
            return stored  # which is decoded when the user asks for it
        try:
            return load(stored.text if isinstance(load, LoadText) else stored.decode())
        except Exception as error:  # noqa: BLE001 - the user's load fails for one item only
            self._is_done, self._sends_once = True, entry.once
            self.error = self._of_item(without_frames(error))
            return None

    def _entry(self, value: Any) -> Entry:
        text, failure, state = None, None, State.DONE
        if self.error is None:
            try:
                text = value_text(value if self._run.dump is None else self._run.dump(value))
            except Exception as error:  # noqa: BLE001 - the user's dump; its text may show the value
                self.error = self._of_item(
                    JournalError(
                        f"the value cannot be written as JSON ({type(error).__name__}): let the "
                        "function return JSON, or give dump= of bulk.run; then retry_failed=True"
                    )
                )
        if self.error is not None:
            failure = failure_of(self.error, self._said(self.error))
            is_unknown = failure.advice is Advice.CHECK and failure.outcome == Outcome.UNKNOWN.name
            state = State.UNKNOWN if is_unknown else State.FAILED
        return Entry(
            key=self.digest or b"",
            state=state,
            once=self._sends_once,
            item=item_text(self.item),
            value=text,
            failure=failure,
            attempts=self.attempts,
            elapsed=self.elapsed,
        )


def unsent(message: str, kind: type[GatewayError] = DeadlineExceededError) -> GatewayError:
    error = kind(message)
    error.outcome, error.advice = Outcome.NOT_SENT, Advice.REPEAT
    return error


def _raise_error(error: Exception | None) -> None:
    if error is not None:
        raise error


def _of_call(error: BaseException) -> BaseException:
    told = copy(error)  # the call writes to it; the run raises the other one
    if isinstance(told, JournalError):
        told.advice = Advice.REPEAT  # by the next run: nothing was sent
    return told


def _resolve(written: asyncio.Future[None], error: Exception | None) -> None:
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(error)
        written.exception()  # the run may have ended: nobody has to ask for it
