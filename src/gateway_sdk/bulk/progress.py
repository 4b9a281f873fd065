"""How far a run has got."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway_sdk._http.body.body import tell_progress
from gateway_sdk.bulk.result import BulkResult


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run has got.

    Attributes:
        done: Items that have a result, failed ones included.
        failed: Those whose call failed.
        from_journal: Those that an earlier run had done.
        total: How many there are; None if *items* does not tell its length.
    """

    done: int
    failed: int
    from_journal: int
    total: int | None


OnProgress = Callable[[Progress], object]


class Meter:
    """Counts results and tells whoever wants to know."""

    def __init__(self, tell: OnProgress | None, total: int | None) -> None:
        self._tell = tell
        self._now = Progress(0, 0, 0, total)

    def count(self, result: BulkResult[Any, Any]) -> None:
        """Count a result; what the listener raises is logged, and loses nothing."""
        if self._tell is None:
            return
        before = self._now
        self._now = Progress(
            before.done + 1,
            before.failed + (result.error is not None),
            before.from_journal + result.from_journal,
            before.total,
        )
        tell_progress(self._tell, self._now)
