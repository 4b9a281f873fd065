"""The job of the trials, which all their processes import.

Variables: FLEET_DATABASE, FLEET_RATE (requests a second of all workers together; 0: no limit),
FLEET_LEASE (seconds).
"""

import os
import signal
from collections.abc import Iterator
from typing import Any

from gateway_sdk import GatewaySession, RateLimit, fleet

CURRENCIES = ("USD", "GBP", "JPY", "CHF", "SEK", "NOK", "DKK", "PLN", "CZK", "HUF")


def items(number: int, once: int, *, poison: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield different items: some must not be made twice, one may kill its worker."""
    every = number // once if once else number + 1
    for n in range(number):
        kind = "customer" if n % every == every - 1 else "rates"
        yield {"kind": "poison" if n == poison else kind, "number": n}


async def call(gateway: GatewaySession, item: dict[str, Any]) -> Any:
    """Make the call of an item."""
    number = item["number"]
    if item["kind"] == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    if item["kind"] == "customer":
        return await gateway.customer.create_customer(
            {"person": {"firstName": {"name": f"c{number}"}}}
        )
    base, currency = divmod(number, len(CURRENCIES))
    return await gateway.currency.exchange_rate_series(
        f"B{base:05}", CURRENCIES[currency], "2026-01-01", "2026-01-31"
    )


RATE = int(os.environ.get("FLEET_RATE", "0"))

trial = fleet.Job(
    "trial",
    function=call,
    database=os.environ.get("FLEET_DATABASE", ""),
    rate_limit=RateLimit(RATE) if RATE else None,
    concurrency=50,
    lease=float(os.environ.get("FLEET_LEASE", "30")),
)
