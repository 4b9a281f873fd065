"""Fetch the rates of ten currencies against each other, on a Dask cluster.

Without an address it starts a cluster on this machine (`gateway sandbox` prints the variables):

    python examples/cluster/rates.py
    DASK_SCHEDULER=tcp://127.0.0.1:8786 python examples/cluster/rates.py
"""

import asyncio
import os
from itertools import permutations

from gateway_sdk import RateLimit, bulk, cluster
from gateway_sdk.bulk import Progress

CURRENCIES = ("CHF", "CZK", "DKK", "EUR", "GBP", "JPY", "NOK", "PLN", "SEK", "USD")


def tell(progress: Progress) -> None:
    """Say what the run waits for."""
    if progress.outage is not None:
        print("waiting:", progress.outage.error)


async def main() -> None:
    """Fetch 90 series; run it again after a crash, and it goes on."""
    queries = [
        {"base": base, "symbols": symbol, "start_date": "2026-01-01", "end_date": "2026-03-31"}
        for base, symbol in permutations(CURRENCIES, 2)
    ]
    results = cluster.run(
        "exchange_rate_series",
        queries,
        address=os.environ.get("DASK_SCHEDULER"),
        allow_insecure=True,  # the network of the compose file is private
        rate_limit=RateLimit(200),
        journal="cluster.db",
        job="rates 2026-1",
        on_progress=tell,
    )
    async for result in results:
        if result.error is not None:
            print(result.item, result.error)
    print(bulk.export("cluster.db", "cluster.csv").rows, "rates in cluster.csv")


if __name__ == "__main__":
    asyncio.run(main())
