"""Fetch a quarter of rates of every currency that the countries of the world use, 20 at a time.

Run it against the sandbox (`gateway sandbox` prints the variables to set):

    python examples/bulk_fetch.py
"""

import asyncio
from collections import Counter
from datetime import date
from typing import Any

from gateway_sdk import GatewaySession, bulk

FIRST, LAST = date(2026, 1, 1), date(2026, 3, 31)


async def main() -> None:
    """List the countries, fetch one series per currency, and say what came and what did not."""
    async with GatewaySession.from_env() as gateway:

        async def quarter(currency: str) -> Any:
            return await gateway.currency.exchange_rate_series(
                base="EUR", symbols=currency, start_date=FIRST, end_date=LAST
            )

        countries = await gateway.country_data.list_countries()
        currencies = [code for code in bulk.currencies_of(countries) if code != "EUR"]
        failures: Counter[str] = Counter()
        async for result in bulk.run(quarter, currencies, concurrency=20):
            if result.error is None:
                print(f"{result.item}: {len(result.value['rates'])} days")
            else:
                failures[type(result.error).__name__] += 1
    print(f"{len(currencies)} currencies of {len(countries)} countries, failed: {dict(failures)}")


if __name__ == "__main__":
    asyncio.run(main())
