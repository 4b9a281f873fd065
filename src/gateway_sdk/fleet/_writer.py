"""Write results to a store while calls go on."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from gateway_sdk.fleet._store import ItemRecord


class Writer:
    """Collects results and writes them in batches, one batch at a time."""

    def __init__(
        self, write: Callable[[Sequence[ItemRecord]], Awaitable[None]], batch: int
    ) -> None:
        self._write = write
        self._batch = batch
        self._ready: list[ItemRecord] = []
        self._is_urgent = False
        self._writing: asyncio.Task[None] | None = None

    def add(self, record: ItemRecord, *, at_once: bool) -> None:
        """Take a result; it is written soon, or *at_once* if losing it would be worse."""
        self._ready.append(record)
        self._is_urgent = self._is_urgent or at_once
        if self._is_due and self._is_idle:
            self._writing = asyncio.create_task(self._write_due())

    @property
    def _is_due(self) -> bool:
        return self._is_urgent or len(self._ready) >= self._batch

    @property
    def _is_idle(self) -> bool:
        """Whether no batch is being written, and none could not be written: its error is kept."""
        writing = self._writing
        return writing is None or (
            writing.done() and not writing.cancelled() and writing.exception() is None
        )

    async def _write_due(self) -> None:
        while self._is_due:
            await self._write_ready()

    async def _write_ready(self) -> None:
        records, self._ready, self._is_urgent = self._ready, [], False
        await self._write(records)

    def check(self) -> None:
        """Raise the error of a batch that could not be written."""
        if self._writing is not None and self._writing.done():
            self._writing.result()

    async def finish(self) -> None:
        """Write everything that is left, unless an earlier batch could not be written."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
            self._writing.result()
        if self._ready:
            await self._write_ready()
