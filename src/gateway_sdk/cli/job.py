"""Many series: which are asked for, the run that fetches them, and what has come of it."""

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from gateway_sdk import errors
from gateway_sdk.bulk import BulkResult, currencies_of
from gateway_sdk.cli.advice import quote
from gateway_sdk.cli.failure import REFUSED, UNCHANGED, CommandError
from gateway_sdk.cli.output.console import Show
from gateway_sdk.cli.output.values import format_span, printable
from gateway_sdk.cli.series import to_journal
from gateway_sdk.errors import GatewayError
from gateway_sdk.models import ExchangeRateSeriesRequest as Query
from gateway_sdk.outcome import Outcome
from gateway_sdk.session import GatewaySession

HOPELESS: Final = (errors.AuthError, errors.UnauthorizedError)
"""What happens to one call happens to all that follow."""

HOPELESS_AT_FIRST: Final = (
    errors.ConnectionFailedError,
    errors.ForbiddenError,
    errors.RedirectError,
)
"""Likewise, as long as nothing has come: then it is about the gateway, and not about a series."""

MOST_KINDS: Final = 5
"""Kinds of failures that are named; the file has them all."""

SLOW: Final = 10
"""Below so many a second, a fraction says more."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which series are fetched: of each pair of a base and a symbol, over each part of the days.

    Attributes:
        bases: The currencies that rates are for one unit of.
        symbols: The others; None for those of all countries.
        first_day: The first day.
        last_day: The last day.
        days: The days of one request, the last of which may have fewer; None for all in one.
    """

    bases: Sequence[str]
    symbols: Sequence[str] | None
    first_day: date
    last_day: date
    days: int | None = None

    def size(self, symbols: Sequence[str]) -> int:
        """Count the requests for these symbols."""
        return len(self._pairs(symbols)) * len(self._parts())

    def queries(self, symbols: Sequence[str]) -> Iterator[Query]:
        """Make the requests: one currency each, so that a failure is that of one.

        In the order of bases, symbols and days. For all countries days come before currencies, so
        that those which the gateway does not know are known before the second part. No currency
        is asked for in itself.
        """
        parts, pairs = self._parts(), self._pairs(symbols)
        order = [(pair, part) for pair in pairs for part in parts]
        if self.symbols is None:
            order = [(pair, part) for part in parts for pair in pairs]
        for (base, symbol), part in order:
            yield part.model_copy(update={"base": base, "symbols": symbol})

    def _pairs(self, symbols: Sequence[str]) -> list[tuple[str, str]]:
        return [(base, symbol) for base in self.bases for symbol in symbols if symbol != base]

    def _parts(self) -> list[Query]:
        """Cut the days into requests that lack their currencies."""
        days = {"start_date": self.first_day.isoformat(), "end_date": self.last_day.isoformat()}
        whole = Query(base="", symbols="", **days)
        return [whole] if self.days is None else whole.split(days=self.days)


class Tally:
    """What has come of a run.

    Args:
        deadline: Seconds for the whole run; None if it has none.
        leaves_out: Whether currencies that the gateway does not know are left out, and no failure.

    Attributes:
        opened: Whether the journal is open.
        total: Series that there are to be; None until the gateway has listed its countries.
        done: Those that have a result, of whatever kind.
        failed: Those whose call failed.
        late: Those that the deadline left out: the journal has nothing of them.
        earlier: Those that came in an earlier run.
        asked: Those that this run asked for, failed ones included.
        fetched: Those of them that came.
        left_out: Pairs of a base and a symbol that the gateway does not know, with its words.
    """

    def __init__(self, deadline: float | None = None, *, leaves_out: bool = False) -> None:
        self.opened = False
        self.total: int | None = None
        self.done = self.failed = self.late = self.earlier = self.asked = self.fetched = 0
        self.left_out: dict[tuple[str, str], str] = {}
        self._leaves_out = leaves_out
        self._deadline = deadline
        self._kinds: Counter[str] = Counter()
        self._such_as: dict[str, str] = {}
        self._refused = self._unknown = 0

    @property
    def there(self) -> int:
        """Series that the file has."""
        return self.earlier + self.fetched

    def add(self, result: BulkResult[Query, Any]) -> None:
        """Count a result."""
        error, from_journal = result.error, result.from_journal
        self.asked += not from_journal
        if self._leaves_out and isinstance(error, errors.NotFoundError):
            self.skip()
            self.left_out[result.item.base, result.item.symbols] = quote(error)
            return
        self.done += 1
        if error is None:
            self.earlier += from_journal
            self.fetched += not from_journal
        elif (
            isinstance(error, errors.DeadlineExceededError) and self._deadline and not from_journal
        ):
            self.late += 1
        else:
            self._add_failure(result.item, error)

    def skip(self) -> None:
        """Expect one series less."""
        self.total = (self.total or 0) - 1

    def _add_failure(self, query: Query, error: Exception) -> None:
        status = getattr(error, "status", None)
        kind = type(error).__name__ if status is None else f"{type(error).__name__} {status}"
        words = quote(error) if isinstance(error, GatewayError) else ""
        self.failed += 1
        self._kinds[kind] += 1
        self._such_as.setdefault(kind, printable(f"{query.symbols} for {query.base}") + words)
        self._refused += getattr(error, "outcome", None) is Outcome.REFUSED
        self._unknown += isinstance(error, errors.NotFoundError)

    def summary(self) -> str:
        """Say how many there are."""
        earlier = f", {self.earlier} from earlier runs" if self.earlier else ""
        return f"{self.there} of {self.total} series{earlier}"

    def so_far(self) -> str:
        """Say the same of a run that was stopped, which may have written some more."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"at least {self.there} of {self.total} series{failed}"

    def complaint(self) -> CommandError | None:
        """Say what is missing and how to get it; None if nothing is."""
        if self.total is None:
            return CommandError(
                f"the deadline of {self._deadline:g} s passed before the gateway had listed its "
                "countries\nNothing was fetched: give more time.",
                UNCHANGED,
            )
        lines: list[str] = []
        if late := self.total - self.done + self.late:
            lines.append(f"the deadline of {self._deadline:g} s passed before {late} of them came")
        if self.failed:
            lines += [f"{self.failed} of {self.total} series failed", *self.failures()]
        if not lines:
            return None
        status = REFUSED if self._refused == self.failed and not late else UNCHANGED
        return CommandError("\n".join((*lines, self._way_out(late))), status)

    def failures(self) -> Iterator[str]:
        """Name the kinds, the most frequent first, with an example of each."""
        width, left = len(str(self.failed)), self.failed
        for kind, count in self._kinds.most_common(MOST_KINDS):
            yield f"  {count:>{width}} {kind}, such as {self._such_as[kind]}"
            left -= count
        if left:
            yield f"  {left:>{width}} others"

    def _way_out(self, late: int) -> str:
        helps = self.failed > self._unknown
        if late:
            again = ", and with --retry-failed again for what failed" if helps else ""
            return f"The same command asks for what is left{again}."
        if helps:
            return "The same command with --retry-failed fetches them again, and nothing else."
        return "The gateway does not know them: are --base and --symbols spelt right?"


class Pace(ProgressColumn):
    """Failures, series a second, and the time that is left.

    What an earlier run fetched comes at once, and tells nothing of how fast the gateway is.
    """

    def __init__(self, tally: Tally, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Column(no_wrap=True))
        self._tally = tally
        self._clock = clock
        self._began = clock()

    def render(self, task: Task) -> Text:
        """Write it for now: of the speed nothing before the first call has ended."""
        del task  # rich's own figures take earlier runs into account
        tally, seconds = self._tally, self._clock() - self._began
        words = [f"{tally.failed} failed"] if tally.failed else []
        if tally.asked and seconds:
            speed = tally.asked / seconds
            words.append(f"{speed:.0f}/s" if speed >= SLOW else f"{speed:.1f}/s")
            words.append(f"{format_span(((tally.total or 0) - tally.done) / speed)} left")
        return Text(" ".join(f"· {word}" for word in words))


def bar_of(tally: Tally) -> tuple[ProgressColumn, ...]:
    """Make the columns of the bar of a run."""
    return TextColumn("Fetching"), BarColumn(bar_width=None), MofNCompleteColumn(), Pace(tally)


async def fetch(
    gateway: GatewaySession,
    plan: Plan,
    tally: Tally,
    show: Show,
    take: Callable[[BulkResult[Query, Any]], None] = lambda _: None,
    **options: Any,
) -> None:
    """Fetch all series, and count them.

    Args:
        gateway: The session.
        plan: Which series.
        tally: What counts them; it says which are left out, too.
        show: Told how many are done, of how many.
        take: Called with each result.
        **options: Those of `exchange_rate_series_bulk`.

    Raises:
        GatewayError: the run is hopeless; what happened to one call would happen to all.
    """

    async def queries() -> AsyncGenerator[Query]:
        tally.opened = True  # it is asked for the first one when the journal is open
        symbols = plan.symbols
        if symbols is None:
            symbols = currencies_of(await gateway.country_data.list_countries())
        tally.total = plan.size(symbols)
        show(tally.done, tally.total)
        for query in plan.queries(symbols):
            if (query.base, query.symbols) in tally.left_out:
                tally.skip()
            else:
                yield query

    results = gateway.currency.exchange_rate_series_bulk(queries(), dump=to_journal, **options)
    async with aclosing(results):
        async for result in results:
            tally.add(result)
            show(tally.done, tally.total)
            _raise_if_hopeless(result, tally)
            take(result)


def _raise_if_hopeless(result: BulkResult[Query, Any], tally: Tally) -> None:
    error = result.error
    if error is None or result.from_journal:
        return
    hopeless = HOPELESS if tally.fetched else HOPELESS + HOPELESS_AT_FIRST
    # What is no error of the SDK is a bug, and not a series that failed.
    if not isinstance(error, GatewayError) or isinstance(error, hopeless):
        raise error
