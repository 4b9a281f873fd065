"""A bulk run for exchange rates: its requests, the run itself, and the count of its results."""

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from itertools import product
from typing import Any, Final

from rich.progress import ProgressColumn

from gateway_sdk import errors
from gateway_sdk.bulk import BulkResult, currencies_of
from gateway_sdk.cli.advice import quote
from gateway_sdk.cli.failure import REFUSED, UNCHANGED, CommandError
from gateway_sdk.cli.output.console import Show, counting_bar
from gateway_sdk.cli.output.values import describe_pace, printable
from gateway_sdk.cli.series import to_journal
from gateway_sdk.errors import GatewayError
from gateway_sdk.models import ExchangeRateSeriesRequest as Query
from gateway_sdk.outcome import Outcome
from gateway_sdk.session import GatewaySession

HOPELESS: Final = (errors.AuthError, errors.UnauthorizedError)
"""Errors that all further calls would have too."""

HOPELESS_AT_FIRST: Final = (
    errors.ConnectionFailedError,
    errors.ForbiddenError,
    errors.RedirectError,
)
"""Likewise as long as no series has arrived: then it is the gateway, and not one series."""

MOST_KINDS: Final = 5
"""Kinds of failures that are named; the file has them all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The series of a run: for each pair of a base and a symbol, and each part of the days.

    Attributes:
        bases: The base currencies.
        symbols: The other currencies; None for those of all countries.
        first_day: The first day.
        last_day: The last day.
        days: The days of one request; the last request may have fewer. None for all days in one.
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
        """Make the requests, with one symbol each, so that each currency can fail by itself.

        They are in the order of bases, symbols and days. For all countries the days come before
        the currencies: after the first part it is known which currencies the gateway lacks.
        """
        parts, pairs = self._parts(), self._pairs(symbols)
        order: Iterable[tuple[tuple[str, str], Query]] = product(pairs, parts)
        if self.symbols is None:
            order = ((pair, part) for part, pair in product(parts, pairs))
        for (base, symbol), part in order:
            yield part.model_copy(update={"base": base, "symbols": symbol})

    def _pairs(self, symbols: Sequence[str]) -> list[tuple[str, str]]:
        return [(base, symbol) for base, symbol in product(self.bases, symbols) if symbol != base]

    def _parts(self) -> list[Query]:
        """Divide the days into requests, still without their currencies."""
        days = {"start_date": self.first_day.isoformat(), "end_date": self.last_day.isoformat()}
        whole = Query(base="", symbols="", **days)
        return [whole] if self.days is None else whole.split(days=self.days)


class Tally:
    """Counts the results of a run.

    Args:
        deadline: Seconds for the whole run; None if it has none.
        leaves_out: Whether a currency that the gateway does not know is left out, and no failure.

    Attributes:
        opened: Whether the journal is open.
        total: The series of the run; None until the gateway has listed its countries.
        failed: Those whose call failed.
        late: Those that the deadline cut: they are not in the journal.
        earlier: Those that an earlier run fetched.
        fetched: Those that this run fetched.
        asked: The requests of this run, failed ones included.
        left_out: Pairs of a base and a symbol that the gateway does not know, with its words.
    """

    def __init__(self, deadline: float | None = None, *, leaves_out: bool = False) -> None:
        self.opened = False
        self.total: int | None = None
        self.failed = self.late = self.earlier = self.asked = self.fetched = 0
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

    @property
    def done(self) -> int:
        """Series that have a result, also a failure."""
        return self.there + self.failed + self.late

    def add(self, result: BulkResult[Query, Any]) -> None:
        """Count a result."""
        error, from_journal = result.error, result.from_journal
        may_be_late = self._deadline is not None and not from_journal
        self.asked += not from_journal
        if self._leaves_out and isinstance(error, errors.NotFoundError):
            self.skip()
            self.left_out[result.item.base, result.item.symbols] = quote(error)
        elif error is None:
            self.earlier += from_journal
            self.fetched += not from_journal
        elif may_be_late and isinstance(error, errors.DeadlineExceededError):
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
        """Say the same for a run that was stopped: it may have written more than it counted."""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"at least {self.there} of {self.total} series{failed}"

    def complaint(self) -> CommandError | None:
        """Say what is missing and how to get it; None if nothing is."""
        if self.total is None:
            return CommandError(
                f"the deadline of {self._deadline:g} s passed before the countries were listed\n"
                "Nothing was fetched: give more time.",
                UNCHANGED,
            )
        lines: list[str] = []
        if late := self.total - self.done + self.late:
            lines.append(f"the deadline of {self._deadline:g} s passed: {late} series are missing")
        if self.failed:
            lines += [f"{self.failed} of {self.total} series failed", *self.failures()]
        if not lines:
            return None
        status = REFUSED if self._refused == self.failed and not late else UNCHANGED
        return CommandError("\n".join((*lines, self._advice(late))), status)

    def failures(self) -> Iterator[str]:
        """Name the kinds of failures, the most frequent first, with an example of each."""
        width, left = len(str(self.failed)), self.failed
        for kind, count in self._kinds.most_common(MOST_KINDS):
            yield f"  {count:>{width}} {kind}, such as {self._such_as[kind]}"
            left -= count
        if left:
            yield f"  {left:>{width}} others"

    def _advice(self, late: int) -> str:
        helps = self.failed > self._unknown
        if late:
            again = ", and with --retry-failed also what failed" if helps else ""
            return f"The same command fetches what is missing{again}."
        if helps:
            return "The same command with --retry-failed fetches them again."
        return "The gateway does not know them: are --base and --symbols spelt right?"


def bar_of(tally: Tally, clock: Callable[[], float] = time.monotonic) -> tuple[ProgressColumn, ...]:
    """Make the columns of the bar of a run.

    The speed is that of this run: results of earlier runs are there at once, and say nothing about
    the gateway.
    """
    began = clock()

    def words() -> Iterator[str]:
        if tally.failed:
            yield f"{tally.failed} failed"
        seconds = clock() - began
        if tally.asked and seconds:
            yield from describe_pace(tally.asked / seconds, (tally.total or 0) - tally.done)

    return counting_bar("Fetching", words)


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
        tally: Counts the results, and knows which currencies are left out.
        show: Called with the number of series that are done, and of all.
        take: Called with each result.
        **options: Options of `exchange_rate_series_bulk`.

    Raises:
        GatewayError: all further calls would fail too.
    """

    async def queries() -> AsyncGenerator[Query]:
        tally.opened = True  # the run asks for the first item when the journal is open
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
    # An error that is not of the SDK is a bug, and not a failed series.
    if not isinstance(error, GatewayError) or isinstance(error, hopeless):
        raise error
