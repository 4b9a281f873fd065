"""The job of the examples `fleet_dask` and `fleet_procrastinate`: what all their processes import.

FLEET_DATABASE is the address of a PostgreSQL, which all processes must reach.
"""

import os
from collections.abc import Iterator
from datetime import date

from gateway_sdk import fleet
from gateway_sdk.models import ExchangeRateSeriesRequest

CURRENCIES = ("USD", "GBP", "JPY", "CHF", "SEK", "NOK", "DKK", "PLN")

rates = fleet.Job(
    "rates-2026-01",
    operation="exchange_rate_series",
    store=fleet.PostgresStore(os.environ["FLEET_DATABASE"]),
)


def queries() -> Iterator[ExchangeRateSeriesRequest]:
    """Yield a query for each pair of currencies: the same ones each time."""
    for base in CURRENCIES:
        for symbol in CURRENCIES:
            if symbol != base:
                yield ExchangeRateSeriesRequest(
                    base=base,
                    symbols=symbol,
                    start_date=date(2026, 1, 1),
                    end_date=date(2026, 1, 31),
                )


async def run_chunk(address: str, chunk: int) -> None:
    """Run one chunk, with a session of its own."""
    async with rates.worker() as worker:
        await worker.run(address, chunk)
