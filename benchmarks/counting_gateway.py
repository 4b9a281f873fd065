"""A gateway that takes 20 ms for each request, and counts how often it got each body.

`GET /statistics` tells it; `GET /mode/503` and `/mode/200` change what it answers.
"""

import asyncio
import json
import sys
from collections import Counter
from typing import Final

from benchmarks.gateway_server import STATISTICS, Connection, reply
from benchmarks.processes import serve_protocol

LATENCY: Final = 0.02
"""Seconds that each request takes."""

CUSTOMERS: Final = b"/customer/"
MODE: Final = b"/mode/"
CUSTOMER: Final = reply(200, {"id": 1})
RATES: Final = reply(
    200,
    {"base": "EUR", "rates": {f"2026-01-{day:02}": {"USD": 1 + day / 100} for day in range(1, 31)}},
)


class Counts:
    """What the connections share: how often each body came."""

    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._queries: Counter[bytes] = Counter()
        self._customers: Counter[str] = Counter()
        self._status = 200

    def answer(self, target: bytes, body: bytes) -> tuple[float, bytes]:
        """Count a request; return how many seconds to wait, and then what to reply."""
        if target == STATISTICS:
            figures = {
                "requests": self._queries.total() + self._customers.total(),
                "queries": len(self._queries),
                "customers": dict(self._customers),
            }
            return 0.0, reply(200, figures)
        if target.startswith(MODE):
            self._status = int(target.removeprefix(MODE))
            return 0.0, reply(200, {})
        if self._status != 200:  # noqa: PLR2004 - the status
            return self._latency, reply(self._status, {})
        if target.startswith(CUSTOMERS):
            self._customers[json.loads(body)["person"]["firstName"]["name"]] += 1
            return self._latency, CUSTOMER
        self._queries[body] += 1
        return self._latency, RATES


if __name__ == "__main__":
    counts = Counts(float(sys.argv[1]) if len(sys.argv) > 1 else LATENCY)
    asyncio.run(serve_protocol(lambda: Connection(counts)))
