"""The step that every engine runs: do what the store lacks of a chunk. It may be repeated."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, nullcontext, suppress
from typing import Final

from gateway_sdk.bulk._limit import Limit
from gateway_sdk.bulk._observers import RunObservers
from gateway_sdk.bulk._runner import PendingItem, Runner
from gateway_sdk.bulk._source import PlainSource
from gateway_sdk.errors import (
    AuthError,
    GatewayError,
    PlanStoreError,
    PoisonChunkError,
    UnauthorizedError,
)
from gateway_sdk.fleet._json import value_text
from gateway_sdk.fleet._parts import Parts
from gateway_sdk.fleet._results import Entry, Results
from gateway_sdk.fleet._store import ChunkState, ItemRecord, PlanRecord, State
from gateway_sdk.fleet._writer import Writer
from gateway_sdk.observer import RunInfo
from gateway_sdk.session import GatewaySession

_logger = logging.getLogger("gateway_sdk")

LOGIN: Final = "waiting for a login: run `gateway login`"
NEW_TOKEN: Final = f"{LOGIN}, or start the workers again with another access token"

_LAST_WORD: Final = 5.0
"""Seconds for telling the store how a chunk ended early; it does without, if it must."""


class Chunk:
    def __init__(
        self, plan: PlanRecord, number: int, parts: Parts, gateway: GatewaySession
    ) -> None:
        self._plan = plan
        self._number = number
        self._parts = parts
        self._store = parts.store
        self._gateway = gateway
        self._is_waiting = False
        self._is_stopping = False
        self._wake: Callable[[], None] = lambda: None

    async def run(self) -> None:
        texts = await self._store.read_items(self._plan, self._number)
        indexes = self._plan.indexes(self._number)
        if len(texts) != len(indexes):
            raise PlanStoreError(
                f"chunk {self._number} of {self._plan.name!r} should have {len(indexes)} items and"
                f" has {len(texts)}: its items were changed; plan it under another name"
            )
        known = await self._store.known(self._plan, self._number)
        begun = [index for index, state in known.items() if state is State.BEGUN]
        if begun:  # by a worker that has ended, as far as can be known
            await self._store.settle_unknown(self._plan, begun)
        todo = [
            Entry(index, text)
            for index, text in zip(indexes, texts, strict=True)
            if index not in known
        ]
        if todo:
            await self._start()
            await self._do(todo)
        await self._store.clear_chunk(self._plan, self._number)

    async def _start(self) -> None:
        starts = await self._store.start_chunk(self._plan, self._number)
        if starts > self._parts.max_starts:
            message = f"started {starts - 1} times without an end"
            await self._store.mark_chunk(self._plan, self._number, ChunkState.BROKEN, message)
            raise PoisonChunkError(
                f"chunk {self._number} of {self._plan.name!r} was {message}: look at what its"
                " items have that others do not, and submit the plan again"
            )

    async def _do(self, todo: Sequence[Entry]) -> None:
        """Make the calls; say in the store how it ended, unless it ended well."""
        try:
            await self._until_cancelled(todo)
        except asyncio.CancelledError:
            # A worker that is asked to end says nothing against the chunk.
            await _said(self._store.clear_chunk(self._plan, self._number))
            raise
        except Exception as error:
            ours = isinstance(error, GatewayError)
            message = str(error) if ours else type(error).__name__  # others may quote the item
            await _said(
                self._store.mark_chunk(self._plan, self._number, ChunkState.BROKEN, message)
            )
            raise

    async def _until_cancelled(self, todo: Sequence[Entry]) -> None:
        """Make the calls; after a cancellation, only those in flight, for the grace time."""
        calls = asyncio.create_task(self._make_calls(todo))
        try:
            await asyncio.shield(calls)
        finally:
            self._is_stopping = True
            self._wake()
            try:
                await asyncio.wait([calls], timeout=self._parts.grace)
            finally:
                calls.cancel()
                await asyncio.wait([calls])

    async def _make_calls(self, todo: Sequence[Entry]) -> None:
        shared = self._parts.shared.get()
        writer = Writer(self._write, self._store.batch)
        results = Results(self._plan, self._store, writer)
        told = self._gateway.observers
        observers = RunObservers(told, RunInfo(len(todo))) if told else None
        runner = _ChunkRunner(
            self._call,
            limit=shared.limit,
            results=results,
            wait=self._wait_for_login,
            observers=observers,
        )
        self._wake = runner.wake
        shared.limit.join(runner.wake)
        try:
            with observers or nullcontext():
                await self._take(runner, todo, observers, writer.check, results.check)
        except BaseException:
            with suppress(PlanStoreError):
                await writer.finish()
            with suppress(PlanStoreError):
                await results.release()
            raise
        finally:
            shared.limit.leave(runner.wake)
        await writer.finish()
        if results.of_others:  # they began since this chunk looked
            await self._store.settle_unknown(self._plan, results.of_others)

    async def _take(
        self,
        runner: Runner[Entry, str],
        todo: Sequence[Entry],
        observers: RunObservers | None,
        *checks: Callable[[], None],
    ) -> None:
        """Take the results, which were stored before, and raise what is no error of an item."""
        async with aclosing(runner.results(PlainSource(self._until_stopping(todo)))) as results:
            async for result in results:
                if observers is not None:
                    observers.count(result)
                for check in checks:
                    check()

    def _until_stopping(self, todo: Sequence[Entry]) -> Iterator[Entry]:
        for entry in todo:
            if self._is_stopping:
                return
            yield entry

    async def _write(self, records: Sequence[ItemRecord]) -> None:
        await self._store.write_results(self._plan, self._number, records)

    async def _call(self, entry: Entry) -> str:
        """Make the call, and return the value as JSON text: the value itself is not kept."""
        value = await self._parts.work.call(self._gateway, entry.text)
        if self._is_waiting:
            self._is_waiting = False
            self._parts.shared.get().login.has_token()
            # The value must not be lost with the note.
            await _said(self._store.mark_chunk(self._plan, self._number, ChunkState.RUNNING, ""))
        return value_text(value)

    async def _wait_for_login(self, error: GatewayError) -> None:
        """Say that the plan waits, and wait until it is time to try again."""
        if not self._is_waiting:
            self._is_waiting = True
            message = LOGIN if isinstance(error, AuthError) else NEW_TOKEN
            _logger.warning("%s: %s", self._plan.name, message)
            await self._store.mark_chunk(self._plan, self._number, ChunkState.WAITING, message)
        await self._parts.shared.get().login.nap()


async def _said(saying: Awaitable[None]) -> None:
    """Wait for a last word to the store, for a limited time; it matters less than the error."""
    with suppress(PlanStoreError, TimeoutError):
        async with asyncio.timeout(_LAST_WORD):
            await saying


class _ChunkRunner(Runner[Entry, str]):
    """Makes the calls of a chunk; a call without a usable token waits and begins again."""

    def __init__(
        self,
        call: Callable[[Entry], Awaitable[str]],
        *,
        limit: Limit,
        results: Results,
        wait: Callable[[GatewayError], Awaitable[None]],
        observers: RunObservers | None,
    ) -> None:
        super().__init__(
            call,
            limit=limit,
            dedup=results,
            ordered=False,
            deadline=None,
            patience=None,
            observers=observers,
        )
        self._wait = wait

    async def _judge(self, pending: PendingItem[Entry, str], error: GatewayError) -> None:
        if not isinstance(error, AuthError | UnauthorizedError):
            await super()._judge(pending, error)
            return
        await self._wait(error)
        pending.is_later = True
