"""A run that is killed: it fetches one day after the other, and says what it was given.

Arguments: the gateway's address, the journal, and how many items there are.
"""

import asyncio
import os
import sys
from datetime import date, timedelta
from typing import Any

from gateway_sdk import GatewaySession, RetryPolicy, bulk
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN


async def main(base_url: str, journal: str, count: int) -> None:
    """Fetch one day's rate per item, and print each item at the moment in which it is yielded."""
    days = [str(date(2025, 12, 31) - timedelta(days=number)) for number in range(count)]
    async with GatewaySession(
        base_url,
        access_token=SANDBOX_ACCESS_TOKEN,
        retry=RetryPolicy(attempts=8, backoff=0.001, retry_after_max=60),
        retry_budget=None,
        trust_env=False,
    ) as gateway:

        async def rates_of(day: str) -> Any:
            return await gateway.currency.exchange_rate_series("EUR", "USD", day, day)

        async for result in bulk.run(
            rates_of, days, journal=journal, job="killed", concurrency=16, retry_failed=True
        ):
            os.write(1, f"{result.item} {int(result.from_journal)}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
