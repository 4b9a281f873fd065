"""A bulk run for exchange rates: its requests, the run itself, and the count of its results."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from itertools import product
from typing import Any, Final

from gateway_sdk import errors
from gateway_sdk.bulk import BulkResult, currencies_of
from gateway_sdk.cli.output.console import counting_bar
from gateway_sdk.cli.process import REFUSED, UNCHANGED, CommandError, printable
from gateway_sdk.cli.session import quote
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


@dataclass(frozen=True, slots=True)
class Plan:
    """The series of a run: for each pair of a base and a symbol, and each part of the days.

    Without symbols they are those of all countries, and without *days* a part is the whole range.
    """

    bases: Sequence[str]
    symbols: Sequence[str] | None
    first_day: date
    last_day: date
    days: int | None = None

    def queries(self, symbols: Sequence[str]) -> tuple[int, Iterator[Query]]:
        """Count and make the requests, with one symbol each, so that each can fail by itself.

        They are in the order of bases, symbols and days. For all countries the days come before
        the currencies: after the first part it is known which currencies the gateway lacks.
        """
        days = {"start_date": self.first_day.isoformat(), "end_date": self.last_day.isoformat()}
        whole = Query(base="", symbols="", **days)
        parts = [whole] if self.days is None else whole.split(days=self.days)
        pairs = [(base, symbol) for base, symbol in product(self.bases, symbols) if symbol != base]
        order: Iterable[tuple[tuple[str, str], Query]] = product(pairs, parts)
        if self.symbols is None:
            order = ((pair, part) for part, pair in product(parts, pairs))
        return len(pairs) * len(parts), (
            part.model_copy(update={"base": base, "symbols": symbol})
            for (base, symbol), part in order
        )


class Tally:
    """Counts the results of a run, which may have a deadline in seconds.

    It may leave out currencies that the gateway does not know: then they are no failures.

    Attributes:
        opened: Whether the journal is open.
        total: The series of the run; None until the gateway has listed its countries.
        failed: Those whose call failed; those that the deadline cut are not in the journal.
        earlier: Those that an earlier run fetched.
        fetched: Those that this run fetched.
        asked: The requests of this run, failed ones included.
        left_out: Pairs of a base and a symbol that the gateway does not know, with its words.
    """

    def __init__(self, deadline: float | None = None, *, leaves_out: bool = False) -> None:
        self.opened = False
        self.total: int | None = None
        self.failed = self.earlier = self.fetched = self.asked = 0
        self.left_out: dict[tuple[str, str], str] = {}
        self._leaves_out, self._deadline = leaves_out, deadline
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
        return self.there + self.failed

    def add(self, result: BulkResult[Query, Any]) -> None:
        """Count a result; one that the deadline has cut stays missing."""
        error, from_journal = result.error, result.from_journal
        is_late = isinstance(error, errors.DeadlineExceededError) and self._deadline is not None
        self.asked += not from_journal
        if self._leaves_out and isinstance(error, errors.NotFoundError):
            self.skip()
            self.left_out[result.item.base, result.item.symbols] = quote(error)
        elif error is None:
            self.earlier += from_journal
            self.fetched += not from_journal
        elif from_journal or not is_late:
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

    def notes(self) -> list[str]:
        """Say what the bar of a run does not show."""
        return [f"{self.failed} failed"] if self.failed else []

    def complaint(self) -> CommandError | None:
        """Say what is missing and how to get it; None if nothing is."""
        if self.total is None:
            return CommandError(
                f"the deadline of {self._deadline:g} s passed before the countries were listed\n"
                "Nothing was fetched: give more time.",
                UNCHANGED,
            )
        lines: list[str] = []
        if late := self.total - self.done:
            lines.append(f"the deadline of {self._deadline:g} s passed: {late} series are missing")
        if self.failed:
            lines += [f"{self.failed} of {self.total} series failed", *self.failures()]
        if not lines:
            return None
        status = REFUSED if self._refused == self.failed and not late else UNCHANGED
        return CommandError("\n".join((*lines, self._advice(late))), status)

    def failures(self) -> Iterator[str]:
        """Name the kinds of failures, the most frequent first, with an example of each."""
        for kind, count in self._kinds.most_common():
            yield f"  {count} {kind}, such as {self._such_as[kind]}"

    def _advice(self, late: int) -> str:
        helps = self.failed > self._unknown
        if late:
            again = ", and with --retry-failed also what failed" if helps else ""
            return f"The same command fetches what is missing{again}."
        if helps:
            return "The same command with --retry-failed fetches them again."
        return "The gateway does not know them: are --base and --symbols spelt right?"


async def fetch(
    gateway: GatewaySession,
    plan: Plan,
    tally: Tally,
    take: Callable[[BulkResult[Query, Any]], None] = lambda _: None,
    **options: Any,
) -> None:
    """Fetch all series and count them, with a bar, until all further calls would fail too.

    The `parse_float` of the session is `shortest`, for the journal; *take* is called with each
    result, and *options* are those of `exchange_rate_series_bulk`.
    """

    async def queries() -> AsyncGenerator[Query]:
        tally.opened = True  # the run asks for the first item when the journal is open
        symbols = plan.symbols
        if symbols is None:
            symbols = currencies_of(await gateway.country_data.list_countries())
        tally.total, planned = plan.queries(symbols)
        show(tally.done, tally.total)
        for query in planned:
            if (query.base, query.symbols) in tally.left_out:
                tally.skip()
            else:
                yield query

    results = gateway.currency.exchange_rate_series_bulk(queries(), **options)
    with counting_bar("Fetching") as show:
        async with aclosing(results):
            async for result in results:
                tally.add(result)
                # Results of earlier runs are there at once, and say nothing about the speed.
                show(tally.done, tally.total, tally.asked, *tally.notes())
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
