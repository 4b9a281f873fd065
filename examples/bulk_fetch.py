"""Fetch a quarter of rates of the currencies that the ECB quotes, and say who uses them.

Run it against the sandbox (`gateway sandbox` prints the variables to set):

    python examples/bulk_fetch.py
"""

import asyncio
from collections import defaultdict
from datetime import date
from typing import Any

from gateway_sdk import GatewaySession, bulk

FIRST, LAST = date(2026, 1, 1), date(2026, 3, 31)
QUOTED = [
    "AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "GBP", "HKD", "HUF", "IDR", "ILS",
    "INR", "ISK", "JPY", "KRW", "MXN", "MYR", "NOK", "NZD", "PHP", "PLN", "RON", "SEK",
    "SGD", "THB", "TRY", "USD", "ZAR",
]  # fmt: skip


async def main() -> None:
    """List the countries, fetch one series per currency, and say what came and what did not.

    After a crash, or without the gateway for an hour, the same program goes on.
    """
    async with GatewaySession.from_env() as gateway:

        async def quarter(currency: str) -> Any:
            return await gateway.currency.exchange_rate_series(
                base="EUR", symbols=currency, start_date=FIRST, end_date=LAST
            )

        users: defaultdict[str | None, list[str | None]] = defaultdict(list)
        for country in await gateway.country_data.list_countries():
            users[country.currency].append(country.country_name)
        failed = 0
        async for result in bulk.run(quarter, QUOTED, journal="quarter.db", job="quarter 2026-1"):
            if result.error is None:
                used = f"{len(users[result.item])} countries, such as {users[result.item][0]}"
                print(f"{result.item}: {len(result.value['rates'])} days; {used}")
            else:
                failed += 1
                print(result.item, result.error)
    written = bulk.export("quarter.db", "quarter.csv")
    print(f"{written.rows} rates in quarter.csv; {failed} of {len(QUOTED)} currencies failed")


if __name__ == "__main__":
    asyncio.run(main())
