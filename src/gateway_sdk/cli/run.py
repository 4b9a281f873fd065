"""A bulk run of exchange rates: what it fetches, its bar, and what is said of its end."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from datetime import date
from itertools import product
from typing import Any, Final

from gateway_sdk import bulk, errors
from gateway_sdk.bulk import BulkResult, Outage, Progress
from gateway_sdk.cli.output import counting_bar
from gateway_sdk.cli.process import CommandError, Status, printable, say
from gateway_sdk.cli.session import explain, quote
from gateway_sdk.models import ExchangeRateSeriesRequest as Query
from gateway_sdk.outcome import Outcome
from gateway_sdk.session import GatewaySession

WAITING: Final = "The run waits and goes on by itself. Ctrl-C ends it; the same command continues."


class Run:
    """A series for each pair of currencies and each part of the days, and what came of them."""

    def __init__(
        self,
        bases: Sequence[str],
        symbols: Sequence[str] | None,  # None: those of all countries that the gateway knows
        days: tuple[date, date],
        split: int | None = None,  # days of a part
        deadline: float | None = None,
    ) -> None:
        first, last = days
        whole = Query(base="", symbols="", start_date=str(first), end_date=str(last))
        self._bases, self._symbols, self._deadline = bases, symbols, deadline
        self._parts = whole.split(days=split or (last - first).days + 1)
        self.opened = False  # the journal
        # Until the gateway has listed its countries, it is not known.
        self.total = None if symbols is None else self._count(symbols)
        # Series in the journal; those of them that this run fetched; requests of this run.
        self.there = self.fetched = self.asked = 0
        self.failures: list[BulkResult[Query, Any]] = []  # without those that the deadline cut
        self.left_out: set[tuple[str, str]] = set()  # base and symbol

    @property
    def done(self) -> int:
        """Series that have a result, also a failure."""
        return self.there + len(self.failures)

    def _count(self, symbols: Sequence[str]) -> int:
        return len(self._parts) * sum(base != it for base in self._bases for it in symbols)

    async def fetch(
        self,
        gateway: GatewaySession,  # with parse_float=shortest, where rates may have many digits
        **options: Any,  # of exchange_rate_series_bulk
    ) -> None:
        """Fetch all series, with a bar, until all further calls would fail too."""
        outage: Outage | None = None

        def look(progress: Progress | None = None) -> None:
            nonlocal outage
            if progress:
                if progress.outage is outage:
                    return
                outage = progress.outage
                if outage:
                    say(f"Since {outage.since:%H:%M:%S} UTC: {explain(outage.error)}\n{WAITING}")
            notes = [f"{len(self.failures)} failed"] * bool(self.failures)
            notes += [f"waiting since {outage.since:%H:%M:%S} UTC"] if outage else []
            draw(self.done, self.total, self.asked, *notes)

        with counting_bar("Fetching") as draw:
            results = gateway.currency.exchange_rate_series_bulk(
                self._queries(gateway, look), on_progress=look, **options
            )
            try:
                async with aclosing(results):
                    async for result in results:
                        self.add(result)
                        look()
            except errors.DeadlineExceededError as error:
                if error.operation is not None:  # of the list of countries, not of the run
                    raise

    async def _queries(
        self, gateway: GatewaySession, look: Callable[[], None]
    ) -> AsyncGenerator[Query]:
        """Make the requests, with one symbol each, so that each can fail by itself."""
        self.opened = True  # the run asks for the first item when the journal is open
        symbols = self._symbols
        if symbols is None:
            symbols = bulk.currencies_of(await gateway.country_data.list_countries())
            self.total = self._count(symbols)
        look()
        # After the first part of the days it is known which currencies the gateway lacks.
        for part, base, symbol in product(self._parts, self._bases, symbols):
            if (base, symbol) in self.left_out:
                self.total = (self.total or 0) - 1
            elif base != symbol:
                yield part.model_copy(update={"base": base, "symbols": symbol})

    def add(self, result: BulkResult[Query, Any]) -> None:
        """Count a result; one that the deadline has cut stays missing."""
        error, query = result.error, result.item
        self.asked += not result.from_journal
        is_late = isinstance(error, errors.DeadlineExceededError) and self._deadline is not None
        if error is None:
            self.there += 1
            self.fetched += not result.from_journal
        elif isinstance(error, errors.NotFoundError) and self._symbols is None:
            self.total = (self.total or 0) - 1
            self.left_out.add((query.base, query.symbols))
        elif result.from_journal or not is_late:
            self.failures.append(result)

    def complaint(self) -> CommandError | None:
        """Say what is missing and how to get it; None if nothing is."""
        late = "all" if self.total is None else self.total - self.done
        failed = [result.error for result in self.failures]
        lines: list[str] = []
        if late:
            lines.append(f"the deadline of {self._deadline:g} s passed: {late} series are missing")
        if failed:
            lines += [f"{len(failed)} of {self.total} series failed"]
            lines += [f"  {kind}" for kind in self.kinds()]
        if not lines:
            return None
        again = not all(isinstance(error, errors.NotFoundError) for error in failed)
        advice = "The gateway does not know them: are --base and --symbols spelt right?"
        if late or again:
            retried = ", and with --retry-failed what failed" if again else ""
            advice = f"The same command fetches what is missing{retried}."
        refused = all(getattr(error, "outcome", None) is Outcome.REFUSED for error in failed)
        status = Status.REFUSED if refused and not late else Status.UNCHANGED
        return CommandError("\n".join((*lines, advice)), status)

    def kinds(self) -> Iterator[str]:
        """Name the kinds of failures, the most frequent first, with an example of each."""
        kinds: dict[str, list[BulkResult[Query, Any]]] = {}
        for result in self.failures:
            status = getattr(result.error, "status", None)
            kind = type(result.error).__name__ + ("" if status is None else f" {status}")
            kinds.setdefault(kind, []).append(result)
        for kind, found in sorted(kinds.items(), key=lambda it: -len(it[1])):
            error, query = found[0].error, found[0].item
            words = quote(error) if isinstance(error, errors.GatewayError) else ""
            example = printable(f"{query.symbols} for {query.base}")
            yield f"{len(found)} {kind}, such as {example}{words}"
