"""Which series are fetched. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from gateway_sdk.models import ExchangeRateSeriesRequest

Query = ExchangeRateSeriesRequest


@dataclass(frozen=True, slots=True)
class Plan:
    """Which series are fetched: of each pair of a base and a symbol, over each part of the days.

    Attributes:
        bases: The currencies that rates are for one unit of.
        symbols: The others; None for those of all countries.
        days: The days of one request, the last of which may have fewer; None for all in one.
    """

    bases: Sequence[str]
    symbols: Sequence[str] | None
    first_day: date
    last_day: date
    days: int | None

    def size(self, symbols: Sequence[str]) -> int:
        """Count the requests for these symbols."""
        return len(self._pairs(symbols)) * len(self._parts())

    def queries(self, symbols: Sequence[str]) -> Iterator[Query]:
        """Make the requests: one currency each, so that a failure is that of one.

        In the order of bases, symbols and days; no currency is asked for in itself.
        """
        parts = self._parts()
        for base, symbol in self._pairs(symbols):
            for part in parts:
                yield part.model_copy(update={"base": base, "symbols": symbol})

    def _pairs(self, symbols: Sequence[str]) -> list[tuple[str, str]]:
        return [(base, symbol) for base in self.bases for symbol in symbols if symbol != base]

    def _parts(self) -> list[Query]:
        """Cut the days into requests that lack their currencies."""
        whole = Query(
            base="",
            symbols="",
            start_date=self.first_day.isoformat(),
            end_date=self.last_day.isoformat(),
        )
        return [whole] if self.days is None else whole.split(days=self.days)
