"""What has come of a run: counted, and in words."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from gateway_sdk.bulk import BulkResult
from gateway_sdk.cli.bulk.plan import Query
from gateway_sdk.cli.failure import REFUSED, UNCHANGED, CommandError
from gateway_sdk.cli.output.printable import printable
from gateway_sdk.errors import DeadlineExceededError, GatewayError
from gateway_sdk.outcome import Outcome

MOST_KINDS: Final = 5
"""Kinds of failures that are named; who has more of them looks into the file."""


class Count:
    """What has come of a run.

    Args:
        deadline: Seconds for the whole run; None if it has none.

    Attributes:
        opened: Whether the journal is open.
        total: Series that there are to be; None until the gateway has listed its countries.
        done: Those that have a result, of whatever kind.
        failed: Those whose call failed.
        late: Those that the deadline left out: the journal has nothing of them.
        earlier: Those that came in an earlier run.
        asked: Those that this run asked for, failed ones included.
        fetched: Those of them that came.
    """

    def __init__(self, deadline: float | None = None) -> None:
        self.opened = False
        self.total: int | None = None
        self.done = 0
        self.failed = 0
        self.late = 0
        self.earlier = 0
        self.asked = 0
        self.fetched = 0
        self._deadline = deadline
        self._kinds: Counter[str] = Counter()
        self._such_as: dict[str, str] = {}
        self._only_refused = True

    @property
    def there(self) -> int:
        """Series that the file has."""
        return self.earlier + self.fetched

    def add(self, result: BulkResult[Query, Any]) -> None:
        """Count a result."""
        self.done += 1
        self.asked += not result.from_journal
        if result.error is None:
            self.earlier += result.from_journal
            self.fetched += not result.from_journal
        elif self._is_late(result):
            self.late += 1
        else:
            self._add_failure(result.item, result.error)

    def _is_late(self, result: BulkResult[Query, Any]) -> bool:
        late = isinstance(result.error, DeadlineExceededError)
        return late and self._deadline is not None and not result.from_journal

    def _add_failure(self, query: Query, error: Exception) -> None:
        self.failed += 1
        status = getattr(error, "status", None)
        kind = type(error).__name__ if status is None else f"{type(error).__name__} {status}"
        self._kinds[kind] += 1
        self._such_as.setdefault(kind, printable(f"{query.symbols} for {query.base}"))
        refused = isinstance(error, GatewayError) and error.outcome is Outcome.REFUSED
        self._only_refused = self._only_refused and refused

    def summary(self) -> str:
        """Say how many there are."""
        earlier = f", {self.earlier} from earlier runs" if self.earlier else ""
        return f"{self.there} of {self.total} series{earlier}"

    def complaint(self) -> CommandError | None:
        """Say what is missing and how to get it; None if nothing is."""
        if self.total is None:
            return CommandError(
                f"the deadline of {self._deadline:g} s passed before the gateway had listed its "
                "countries\nNothing was fetched: give more time.",
                UNCHANGED,
            )
        lines: list[str] = []
        late = self.total - self.done + self.late
        if late:
            lines.append(f"the deadline of {self._deadline:g} s passed before {late} of them came")
        if self.failed:
            lines.append(f"{self.failed} of {self.total} series failed")
            lines.extend(self._failures())
        if not lines:
            return None
        status = REFUSED if self._only_refused and not late else UNCHANGED
        return CommandError("\n".join((*lines, _way_out(late, self.failed))), status)

    def _failures(self) -> Iterator[str]:
        """Name the kinds, the most frequent first, with an example of each."""
        width, left = len(str(self.failed)), self.failed
        for kind, count in self._kinds.most_common(MOST_KINDS):
            yield f"  {count:>{width}} {kind}, such as {self._such_as[kind]}"
            left -= count
        if left:
            yield f"  {left:>{width}} others"


def _way_out(late: int, failed: int) -> str:
    if not late:
        return "The same command with --retry-failed fetches them again, and nothing else."
    again = ", and with --retry-failed again for what failed" if failed else ""
    return f"The same command asks for what is left{again}."
