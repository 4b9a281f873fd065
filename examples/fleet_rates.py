"""A job and the items of its plan: what all processes of a fleet import.

Its database is that of libpq's environment variables (PGHOST, PGDATABASE, PGUSER, PGPASSFILE, ...).
Run this in the root of the project, against the sandbox (`gateway sandbox` prints the variables to
set), once to make the tables and the plan:

    gateway fleet init examples.fleet_rates:rates
    python -m examples.fleet_rates

and this on as many machines as you like:

    gateway fleet worker examples.fleet_rates:rates
"""

import asyncio
from collections.abc import Iterator
from datetime import date

from gateway_sdk import RateLimit, fleet
from gateway_sdk.models import ExchangeRateSeriesRequest

PLAN = "rates-2026-01"
CURRENCIES = ("USD", "GBP", "JPY", "CHF", "SEK", "NOK", "DKK", "PLN")

rates = fleet.Job("rates", operation="exchange_rate_series", rate_limit=RateLimit(200))


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


async def run_chunk(plan: str, number: int) -> bool:
    """Run one chunk, with a session of its own: for other queues."""
    async with rates.worker() as worker:
        return await worker.run_chunk(plan, number)


if __name__ == "__main__":
    asyncio.run(rates.plan(PLAN, queries(), chunk=10))
