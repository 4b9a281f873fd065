"""Tells the user's observers and `on_progress` how far a run is."""

import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from gateway_sdk._call.events import tell
from gateway_sdk._python import tell_progress
from gateway_sdk.bulk.results import BulkResult, OnProgress, Outage, Progress
from gateway_sdk.observer import Observer, RunInfo


class Reporter:
    def __init__(
        self, on_progress: OnProgress | None, observers: Sequence[Observer], total: int | None
    ) -> None:
        self._on_progress = on_progress
        self.observers = observers
        self._run = RunInfo(total)
        self._items = self._done = self._failed = self._from_journal = 0
        self._outage: Outage | None = None

    @contextmanager
    def run_is_told(self) -> Generator[None]:
        began = time.monotonic()
        with ExitStack() as ends:
            for observer in self.observers:
                ends.push(partial(self._finished, observer, began))
                tell(observer.run_started, self._run)
            yield

    def item_started(self) -> None:
        self._items += 1
        for observer in self.observers:
            tell(observer.item_started, self._run, self._items)

    def count(self, result: BulkResult[Any, Any]) -> None:
        self._done += 1
        self._failed += result.error is not None
        self._from_journal += result.from_journal
        self._tell()

    def outage(self, outage: Outage | None) -> None:
        """Report that an outage began, or ended."""
        self._outage = outage
        self._tell()

    def _tell(self) -> None:
        if self._on_progress is not None:
            counts = self._done, self._failed, self._from_journal
            tell_progress(self._on_progress, Progress(*counts, self._run.total, self._outage))

    def _finished(
        self, observer: Observer, began: float, _: object, error: BaseException | None, __: object
    ) -> None:
        elapsed = time.monotonic() - began
        tell(observer.run_finished, self._run, self._done, self._failed, error, elapsed)
