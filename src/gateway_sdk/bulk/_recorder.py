"""What a run writes to its ledger, and reads from it."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextvars import Context, copy_context
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from typing import Any, Final, cast

from pydantic import BaseModel
from pydantic_core import to_json

from gateway_sdk import errors
from gateway_sdk.bulk._item import ItemRun, without_frames
from gateway_sdk.bulk.results import (
    BulkResult,
    Entry,
    Failure,
    Ledger,
    State,
    StoredValue,
)
from gateway_sdk.errors import GatewayError, JournalError, SessionStateError
from gateway_sdk.operations import OPERATIONS
from gateway_sdk.outcome import Advice, Outcome

_TURNS: Final = 2
"""Turns of the event loop before a batch is passed: calls that end together share it."""

_LONGEST_INTEGER: Final = 4300
"""Digits that Python reads."""

_KINDS: Final[dict[str, type[GatewayError]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, GatewayError)
}
_REPEATABILITY: Final = {operation.name: operation.repeatability for operation in OPERATIONS}

Finish = Callable[[ItemRun, BulkResult[Any, Any] | None], None]
Fail = Callable[[BaseException], None]
_Asked = tuple[ItemRun, Any, Callable[[ItemRun, Any, Any], None]]


@dataclass(kw_only=True, eq=False)
class Recorder:
    """Writes what becomes of items to a ledger, in batches; without one, nothing is kept."""

    ledger: Ledger | None
    dump: Callable[[Any], Any] | None
    load: Callable[[Any], Any] | None
    # What is to be written and read, of which item, and what takes the answer or the error.
    _asked: dict[str, list[_Asked]] = field(default_factory=lambda: {"write": [], "read": []})
    _working: asyncio.Task[None] | None = None
    _context: Context = field(default_factory=copy_context)  # not that of an item

    async def open(self, finish: Finish, fail: Fail) -> None:
        """Take the functions that finish an item (None if its result is lost), and end the run."""
        self._finish, self._fail = finish, fail
        self._loop = asyncio.get_running_loop()
        if self.ledger is not None:
            await self.ledger.open()

    async def aclose(self) -> None:
        if self.ledger is not None:
            if self._working is not None:
                await asyncio.wait([self._working])
            await self._work()  # asyncio cancels that task too at the end of a program
            await self.ledger.aclose()

    def _ask(self, ask: str, *asked: Any) -> None:
        self._asked[ask].append(asked)
        if self._working is None or self._working.done():
            self._working = self._loop.create_task(self._work(), context=self._context)

    def _noted(self, _: ItemRun, __: Entry, error: Exception | None) -> None:
        if error is not None:
            self._fail(error)

    async def _work(self) -> None:
        """Ask the ledger for one batch after the other."""
        while any(self._asked.values()):
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            for ask, batch in self._asked.items():
                if batch:
                    self._asked[ask] = []
                    await self._pass(batch, getattr(self.ledger, ask))

    async def _pass(self, batch: Sequence[_Asked], ask: Callable[..., Any]) -> None:
        answers: list[Any] = []
        try:
            answers += await ask([what for _, what, _ in batch]) or [None] * len(batch)
        except asyncio.CancelledError:  # from within, or at the end of the program
            pass
        except Exception as error:  # noqa: BLE001 - it is that of each of them
            answers = [error] * len(batch)
        if len(answers) != len(batch):
            answers = [JournalError("the ledger has not answered for each item")] * len(batch)
        for (run, what, answered), answer in zip(batch, answers, strict=True):
            try:
                answered(run, what, answer)
            except BaseException as error:  # noqa: BLE001 - of the ledger, load, or a wrong answer
                self._fail(error)
                self._finish(run, None)

    def recall(self, run: ItemRun) -> None:
        self._ask("read", run, run.digest, self._recalled)

    def _recalled(self, run: ItemRun, _: bytes, entry: Entry | Exception) -> None:
        if isinstance(entry, Exception):
            raise entry
        run.attempts, run.elapsed = entry.attempts, entry.elapsed
        run.error = None if entry.failure is None else _error_of(entry.failure)
        value = None if run.error else self._loaded(run, entry.value)
        self._finish(run, run.result_with(value, from_journal=True))

    async def record_intent(self, run: ItemRun) -> None:
        """Wait until the ledger has it: no later run sends the item again."""
        if self.ledger is None:
            return
        if asyncio.get_running_loop() is not self._loop:
            raise SessionStateError(
                "the call is made in another event loop than its bulk run, so the journal cannot "
                "record it: make it in the event loop of the run"
            )
        if run.intent is None:
            run.intent = self._loop.create_future()
            self._ask("write", run, _note(run, State.BEGUN), partial(_resolve, run.intent))
        try:
            await asyncio.shield(run.intent)  # other calls of the item may wait for it too
        except Exception as error:
            self._fail(error)
            raise

    def withdraw(self, run: ItemRun) -> None:
        """Write that an item has not begun: it waits, or is repeated later."""
        if run.intent is not None:
            run.intent = None
            self._ask("write", run, _note(run, State.INTERRUPTED), self._noted)

    def ended(self, run: ItemRun, value: Any) -> None:
        """Write the value or the error of an item, and finish it then."""
        if self.ledger is None:
            self._finish(run, run.result_with(value))
            return
        text = None
        if run.error is None:
            try:
                text = _value_text(value if self.dump is None else self.dump(value))
            except Exception as error:  # noqa: BLE001 - the user's dump; its text may show the value
                run.error = failure = JournalError(
                    f"the value cannot be written to the journal ({type(error).__name__}): "
                    "give dump=, a function that converts it to JSON"
                )
                failure.outcome, failure.advice = run.outcome, run.advice(failure.advice)
        self._ask("write", run, _entry_of(run, text), self._written)

    def _written(self, run: ItemRun, entry: Entry, error: Exception | None) -> None:
        if error is not None:
            raise error
        # The value of the ledger, as every later result of an equal item has it: else a run that
        # goes on after a kill would give other types than one that was not interrupted.
        value = self._loaded(run, entry.value) if run.error is None else None
        self._finish(run, run.result_with(value))

    def _loaded(self, run: ItemRun, text: str | None) -> Any:
        stored = StoredValue(text or "null")
        if self.load is None:
            return stored  # which is decoded when the user asks for it
        try:
            return self.load(stored.decode())
        except Exception as error:  # noqa: BLE001 - the user's load fails for one item only
            run.error = without_frames(error)
            return None


def _note(run: ItemRun, state: State) -> Entry:
    return Entry(key=run.digest or b"", state=state, once=True, item=item_text(run.item))


def _resolve(written: asyncio.Future[None], _: object, __: Entry, error: Exception | None) -> None:
    if error is None:
        written.set_result(None)
    else:
        written.set_exception(copy(error))  # the call writes to it; the run raises the other one
        written.exception()  # the run may have ended: nobody has to ask for it


def _value_text(value: Any) -> str:
    """Write a value as JSON that can be read; the error otherwise may show the value."""
    text = to_json(value, by_alias=True, inf_nan_mode="strings").decode()
    if len(text) > _LONGEST_INTEGER:  # only such a text can hold one that is too long
        StoredValue(text).decode()
    return text


def item_text(item: Any) -> str | None:
    """Write an item for readers; None if it is not JSON, because its key identifies it."""
    try:
        return None if _holds_generator(item) else _value_text(item)
    except Exception:  # noqa: BLE001 - the item's class may raise anything
        return None


def _holds_generator(value: Any) -> bool:
    """Tell whether a value holds a generator: writing it would use it up before the call does."""
    inner: Iterable[Any] = ()
    if value is None or isinstance(value, str | int | float):
        return False
    if isinstance(value, Mapping):
        inner = value.values()
    elif isinstance(value, list | tuple):
        inner = cast("Iterable[Any]", value)
    elif isinstance(value, BaseModel):
        inner = vars(value).values()
    elif is_dataclass(value):
        inner = [getattr(value, column.name, None) for column in fields(value)]
    return isinstance(value, Generator) or any(map(_holds_generator, inner))


def _entry_of(run: ItemRun, value: str | None) -> Entry:
    failure = None if run.error is None else _failure_of(run.error, run)
    state = State.DONE
    if failure is not None:
        is_unknown = failure.advice is Advice.CHECK and failure.outcome == Outcome.UNKNOWN.name
        state = State.UNKNOWN if is_unknown else State.FAILED
    return Entry(
        key=run.digest or b"",
        state=state,
        once=run.sends_once,
        item=item_text(run.item),
        value=value,
        failure=failure,
        attempts=run.attempts,
        elapsed=run.elapsed,
    )


def _failure_of(error: Exception, run: ItemRun) -> Failure:
    """Return what a file may hold of an error: no texts of the user or the gateway."""
    name = type(error).__name__
    if not isinstance(error, GatewayError):
        outcome = run.outcome.name if run.has_calls else None
        # Only the user knows whether a repetition may succeed, and asks for it.
        return Failure(error=name, outcome=outcome, advice=run.advice(Advice.REPEAT))
    is_ours = _KINDS.get(name) is type(error) and error.args
    return Failure(
        error=name,
        # As UTF-8 can hold it: the user may raise an error of ours with any text.
        message=str(error.args[0]).encode("utf-8", "replace").decode() if is_ours else None,
        operation=error.operation,
        outcome=(run.outcome if run.has_calls else error.outcome).name,
        status=getattr(error, "status", None),
        advice=run.advice(error.advice),
    )


def _error_of(failure: Failure) -> GatewayError:
    """Return the error for an entry of a ledger; a foreign error becomes a `GatewayError`."""
    kind = _KINDS.get(failure.error, GatewayError)
    message = failure.message or f"{failure.error}, in an earlier run"
    error = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(
        operation=failure.operation,
        outcome=Outcome[failure.outcome or "UNKNOWN"],
        repeatability=_REPEATABILITY.get(failure.operation or ""),
        status=failure.status,
        _advice=failure.advice,
    )
    return error
