"""Keeps the results of a run in a ledger."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from pydantic_core import from_json

from gateway_sdk.bulk._failures import error_of, failure_of, state_of
from gateway_sdk.bulk._json import item_text, value_text
from gateway_sdk.bulk._keys import Dedup, KeyFunction, digest_of
from gateway_sdk.bulk._observers import ItemObserver
from gateway_sdk.bulk.ledger import Entry, Ledger, State
from gateway_sdk.bulk.results import BulkResult, Item, Value
from gateway_sdk.errors import GatewayError, JournalError, SessionStateError

A = TypeVar("A")
B = TypeVar("B")


class Batches:
    """Passes entries to a ledger, and reads them, one batch after the other."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._entries: list[tuple[Entry, asyncio.Future[None]]] = []
        self._keys: list[tuple[bytes, asyncio.Future[Entry]]] = []
        self._working: asyncio.Task[None] | None = None
        self._context = copy_context()  # not that of an item

    def write(self, entry: Entry) -> asyncio.Future[None]:
        return self._ask(self._entries, entry)

    def read(self, key: bytes) -> asyncio.Future[Entry]:
        return self._ask(self._keys, key)

    def _ask(self, queue: list[tuple[A, asyncio.Future[B]]], what: A) -> asyncio.Future[B]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[B] = loop.create_future()
        queue.append((what, answer))
        if self._working is None:
            self._working = loop.create_task(self._work(), context=self._context)
        return answer

    async def _work(self) -> None:
        try:
            while self._entries or self._keys:
                await _pass(self._entries, self._write)
                await _pass(self._keys, self._ledger.read)
        finally:
            self._working = None

    async def _write(self, entries: Sequence[Entry]) -> Sequence[None]:
        await self._ledger.write(entries)
        return [None] * len(entries)

    async def finish(self) -> None:
        """Wait for what is written, also by tasks that an item has left."""
        while self._working is not None:
            await asyncio.wait([self._working])


async def _pass(
    queue: list[tuple[A, asyncio.Future[B]]], ask: Callable[[Sequence[A]], Awaitable[Sequence[B]]]
) -> None:
    if not queue:
        return
    batch = queue[:]
    queue.clear()
    try:
        answers = await ask([what for what, _ in batch])
    except Exception as error:  # noqa: BLE001 - it is that of each of them
        for _, answer in batch:
            if not answer.done():
                answer.set_exception(copy(error) if isinstance(error, GatewayError) else error)
                answer.exception()  # the run may have ended: nobody has to ask for it
    else:
        for (_, answer), found in zip(batch, answers, strict=True):
            if not answer.done():
                answer.set_result(found)


class LedgerResults(Dedup[Item, Value]):
    def __init__(
        self,
        ledger: Ledger,
        *,
        key: KeyFunction[Item] | None,
        dump: Callable[[Value], Any] | None,
        load: Callable[[Any], Value] | None,
    ) -> None:
        self._ledger = ledger
        self._key = key
        self._dump = dump
        self._load = load
        self._begun: dict[bytes, asyncio.Future[None]] = {}
        self._batches = Batches(ledger)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._ledger.open()

    async def aclose(self) -> None:
        closing = asyncio.create_task(self._close())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait([closing])
            raise

    async def _close(self) -> None:
        await self._batches.finish()
        await self._ledger.aclose()

    def digest(self, item: Item) -> bytes | None:
        return digest_of(item if self._key is None else self._key(item))

    def has(self, digest: bytes | None) -> bool:
        return self._ledger.has(digest or b"")

    async def recall(self, item: Item, digest: bytes | None) -> BulkResult[Item, Value]:
        entry = await self._batches.read(digest or b"")
        if entry.failure is None:
            try:
                found = _value_of(entry)
            except ValueError:
                raise JournalError("the journal is damaged: a value is no JSON") from None
            value, error = self._loaded(found)
        else:
            value, error = None, error_of(entry.failure)
        return BulkResult(
            item=item,
            error=error,
            attempts=entry.attempts,
            elapsed=entry.elapsed,
            from_journal=True,
            _value=value,
        )

    async def record_intent(self, item: Item, digest: bytes | None) -> None:
        """Wait until the ledger has it: no later run sends the item again."""
        if asyncio.get_running_loop() is not self._loop:
            raise SessionStateError(
                "the call is made in another event loop than its bulk run, so the journal cannot "
                "record it: make it in the event loop of the run"
            )
        key = digest or b""
        if key not in self._begun:
            entry = Entry(key=key, state=State.BEGUN, once=True, item=item_text(item))
            self._begun[key] = self._batches.write(entry)
        await asyncio.shield(self._begun[key])  # other calls of the item may wait for it too

    async def ended(
        self, digest: bytes | None, result: BulkResult[Item, Value], observer: ItemObserver
    ) -> BulkResult[Item, Value]:
        found = None
        try:
            entry = self._entry(digest, result, observer)
            found = _value_of(entry)  # refuses too deep values and too long integers
        except Exception as error:  # noqa: BLE001 - the user's dump; its text may show the value
            result = replace(result, error=_no_json(error, observer), _value=None)
            entry = self._entry(digest, result, observer)
        await self._end(entry)
        # The value of the ledger, as every later result of an equal item has it: else a run that
        # goes on after a kill would give other types than one that was not interrupted.
        if result.error is None:
            value, wrong = self._loaded(found)
            result = replace(result, error=wrong, _value=value)
        return result

    async def interrupted(
        self, digest: bytes | None, result: BulkResult[Item, Value], observer: ItemObserver
    ) -> None:
        """Write the result of a call that must not be sent twice; other calls are repeated."""
        if observer.may_repeat:
            await self.withdraw(result.item, digest)
        else:
            await self._end(self._entry(digest, result, observer))

    async def withdraw(self, item: Item, digest: bytes | None) -> None:
        if digest in self._begun:
            state = State.INTERRUPTED
            await self._end(Entry(key=digest, state=state, once=True, item=item_text(item)))

    async def _end(self, entry: Entry) -> None:
        self._begun.pop(entry.key, None)
        await self._batches.write(entry)

    def _entry(
        self, digest: bytes | None, result: BulkResult[Item, Value], observer: ItemObserver
    ) -> Entry:
        failure = None if result.error is None else failure_of(result.error, observer)
        value = None
        if failure is None:
            value = value_text(result.value if self._dump is None else self._dump(result.value))
        return Entry(
            key=digest or b"",
            state=State.DONE if failure is None else state_of(failure),
            once=observer.sends_once,
            item=item_text(result.item),
            value=value,
            failure=failure,
            attempts=result.attempts,
            elapsed=result.elapsed,
        )

    def _loaded(self, found: Any) -> tuple[Value | None, Exception | None]:
        try:
            return (found if self._load is None else self._load(found)), None
        except Exception as error:  # noqa: BLE001 - the user's load fails for one item only
            return None, error


def _value_of(entry: Entry) -> Any:
    return None if entry.value is None else from_json(entry.value)


def _no_json(error: Exception, observer: ItemObserver) -> JournalError:
    """Return the error for a value that cannot be written, without the text of the cause."""
    failure = JournalError(
        f"the value cannot be written to the journal ({type(error).__name__}): "
        "give dump=, a function that converts it to JSON"
    )
    failure.outcome = observer.outcome
    return failure
