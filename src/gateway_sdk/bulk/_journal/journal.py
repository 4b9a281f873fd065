"""Keeps the results of items in a journal, also for later runs."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from gateway_sdk import errors
from gateway_sdk.bulk._dedup import Dedup, KeyFunction, digest_of
from gateway_sdk.bulk._journal.file import CHANGED, JournalFile
from gateway_sdk.bulk._journal.index import UNREADABLE, Index
from gateway_sdk.bulk._journal.line import Failure, JournalLine, LineState, as_json
from gateway_sdk.bulk._observers import ItemObserver
from gateway_sdk.bulk.results import BulkResult, Item, Value
from gateway_sdk.errors import GatewayError, JournalError, SessionStateError
from gateway_sdk.operations import OPERATIONS
from gateway_sdk.outcome import Advice, Outcome

_UNFINISHED = Failure(
    error="ReplyLostError",
    message="an earlier run ended before the call did",
    outcome="UNKNOWN",
    advice=Advice.CHECK,
)


class Journal(Dedup[Item, Value]):
    def __init__(
        self,
        path: Path,
        job: str,
        *,
        key: KeyFunction[Item] | None,
        dump: Callable[[Value], Any] | None,
        load: Callable[[Any], Value] | None,
        retry_failed: bool,
        repair: bool,
    ) -> None:
        self._job = job
        self._key = key
        self._dump = dump
        self._load = load
        self._begun: dict[bytes, int] = {}
        self._file = JournalFile(path)
        self._index = Index(self._file, job, retry_failed=retry_failed, repair=repair)
        self._maybe_sent: set[bytes] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        opening = asyncio.create_task(asyncio.to_thread(self._open))
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])  # a thread cannot be cancelled and uses the file
            raise

    def _open(self) -> None:
        self._file.open()
        try:
            self._index.read()
        except OSError as error:
            raise self._file.error(f"cannot be read: {error.strerror}") from None

    async def aclose(self) -> None:
        await self._file.aclose()

    def digest(self, item: Item) -> bytes | None:
        return digest_of(item if self._key is None else self._key(item))

    def recall(self, item: Item, digest: bytes | None) -> BulkResult[Item, Value] | None:
        offset = self._index.get(digest or b"")
        if offset is None:
            return None
        try:
            line = JournalLine.decode(self._file.read(offset))
        except OSError as unread:
            raise self._file.error(f"cannot be read: {unread.strerror}") from None
        except ValueError:
            raise self._file.error(CHANGED) from None
        if line.key != digest:
            raise self._file.error(CHANGED)
        failure = _UNFINISHED if line.state is LineState.BEGUN else line.failure
        value, error = (None, error_of(failure)) if failure else self._loaded(line.value)
        return BulkResult(
            item=item,
            error=error,
            attempts=line.attempts,
            elapsed=line.elapsed,
            from_journal=True,
            _value=value,
        )

    async def record_intent(self, item: Item, digest: bytes | None) -> bool:
        """Write a line, and wait until it is on the disk: no later run sends the item again."""
        if asyncio.get_running_loop() is not self._loop:  # it would not see the end of the sync
            raise SessionStateError(
                "the call is made in another event loop than its bulk run, so the journal cannot "
                "record it: make it in the event loop of the run"
            )
        key = digest or b""
        if key not in self._begun:
            if not self._index.is_complete:  # the lost line may be that of this item
                self._maybe_sent.add(key)
                return False
            line = JournalLine(job=self._job, key=key, once=True, state=LineState.BEGUN, item=item)
            self._begun[key] = self._append(digest, line.encode())
        await self._file.wait_until_synced(self._begun[key])
        return True

    def ended(
        self, digest: bytes | None, result: BulkResult[Item, Value], observer: ItemObserver
    ) -> BulkResult[Item, Value]:
        if digest in self._maybe_sent:
            self._maybe_sent.remove(digest)
            result = replace(result, error=error_of(UNREADABLE), _value=None)
            line = replace(self._line(digest, result, observer), failure=UNREADABLE)
            self._append(digest, line.encode())
            return result
        try:
            line = self._line(digest, result, observer)
        except Exception as error:  # noqa: BLE001 - the user's dump; its text may show the value
            result = replace(result, error=_no_json(error, observer), _value=None)
            line = self._line(digest, result, observer)
        self._append(digest, line.encode())
        self._begun.pop(digest or b"", None)
        # The value of the file, as every later result of an equal item has it: else a run that goes
        # on after a kill would give other types than one that was not interrupted.
        if result.error is None:
            value, wrong = self._loaded(line.value)
            result = replace(result, error=wrong, _value=value)
        return result

    def _loaded(self, found: Any) -> tuple[Value | None, Exception | None]:
        try:
            return (found if self._load is None else self._load(found)), None
        except Exception as error:  # noqa: BLE001 - the user's load fails for one item only
            return None, error

    def interrupted(
        self, digest: bytes | None, result: BulkResult[Item, Value], observer: ItemObserver
    ) -> None:
        """Write the result of a call that must not be sent twice; other calls are repeated."""
        self._maybe_sent.discard(digest or b"")
        if self._begun.pop(digest or b"", None) is not None:
            line = self._line(digest, result, observer)
            state = LineState.INTERRUPTED if observer.may_repeat else LineState.FAILED
            self._append(digest, replace(line, state=state).encode())

    def _line(
        self, digest: bytes | None, result: BulkResult[Item, Value], observer: ItemObserver
    ) -> JournalLine:
        failed = result.error is not None
        value = None
        if not failed:
            value = as_json(result.value if self._dump is None else self._dump(result.value))
        return JournalLine(
            job=self._job,
            key=digest or b"",
            once=observer.sends_once,
            state=LineState.FAILED if failed else LineState.DONE,
            item=result.item,
            value=value,
            failure=failure_of(result.error, observer) if result.error is not None else None,
            attempts=result.attempts,
            elapsed=result.elapsed,
        )

    def _append(self, digest: bytes | None, text: bytes) -> int:
        offset = self._file.append(text)
        self._index.set(digest or b"", offset)
        self._file.sync_soon()
        return offset


def _no_json(error: Exception, observer: ItemObserver) -> JournalError:
    """Return the error for a value that cannot be written, without the text of the cause."""
    failure = JournalError(
        f"the value cannot be written to the journal ({type(error).__name__}): "
        "give dump=, a function that converts it to JSON"
    )
    failure.outcome = observer.outcome
    return failure


_KINDS: Final[dict[str, type[GatewayError]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, GatewayError)
}
_REPEATABILITY: Final = {operation.name: operation.repeatability for operation in OPERATIONS}


def failure_of(error: Exception, observer: ItemObserver) -> Failure:
    """Return what a file may hold of an error: no texts of the user or the gateway."""
    name = type(error).__name__
    if not isinstance(error, GatewayError):
        outcome = observer.outcome.name if observer.has_calls else None
        # Only the user knows whether a repetition may succeed.
        return Failure(error=name, outcome=outcome, advice=observer.advice(Advice.FIX))
    ours = _KINDS.get(name) is type(error)
    return Failure(
        error=name,
        message=_writable(error.args[0]) if ours and error.args else None,
        operation=error.operation,
        outcome=(observer.outcome if observer.has_calls else error.outcome).name,
        status=getattr(error, "status", None),
        advice=observer.advice(error.advice),
    )


def _writable(message: object) -> str:
    """Return a message as UTF-8 can hold it: the user may raise an error of ours with any text."""
    return str(message).encode("utf-8", "replace").decode()


def error_of(failure: Failure) -> GatewayError:
    """Return the error for an entry of a journal; a foreign error becomes a `GatewayError`."""
    kind = _KINDS.get(failure.error, GatewayError)
    message = failure.message or f"{failure.error}, in an earlier run"
    error = kind.__new__(kind, message)
    error.args = (message,)
    known: dict[str, Any] = {
        "operation": failure.operation,
        "outcome": Outcome[failure.outcome or "UNKNOWN"],
        "repeatability": _REPEATABILITY.get(failure.operation or ""),
        "status": failure.status,
        "_advice": failure.advice,
    }
    error.__dict__.update(known)
    return error
