"""Many series: which are asked for, and the run that fetches them."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from gateway_sdk.bulk import BulkResult, currencies_of
from gateway_sdk.cli.output.console import Show
from gateway_sdk.cli.series import to_journal
from gateway_sdk.cli.tally import Tally
from gateway_sdk.errors import (
    AuthError,
    ConnectionFailedError,
    ForbiddenError,
    GatewayError,
    RedirectError,
    UnauthorizedError,
)
from gateway_sdk.models import ExchangeRateSeriesRequest as Query
from gateway_sdk.session import GatewaySession

HOPELESS: Final = (AuthError, UnauthorizedError)
"""What happens to one call happens to all that follow."""

HOPELESS_AT_FIRST: Final = (ConnectionFailedError, ForbiddenError, RedirectError)
"""Likewise, as long as nothing has come: then it is about the gateway, and not about a series."""


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
