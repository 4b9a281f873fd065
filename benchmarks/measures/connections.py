"""Connections of a session on a route without trouble, in the virtual time of the tests' network.

    python -m benchmarks.measures.connections WAY

Before idle connections were distrusted, each caller kept the one that it had opened.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.measures.load import Figures
from benchmarks.processes import child
from gateway_sdk import GatewaySession, bulk
from tests.support import network
from tests.support.certificates import Authority
from tests.support.virtual_time import now, run

CALLERS: Final = 20
CALLS: Final = 1000
RARE: Final = "a write each 2 s"
PAUSE: Final = 2.0
WRITES: Final = 300
ROUND_TRIP: Final = 0.1
HOST: Final = "gateway.test"


async def read(gateway: GatewaySession) -> None:
    """Make a call that reads."""
    await gateway.wallet.spot_trading_available_balance()


async def write(gateway: GatewaySession) -> None:
    """Make a call that must not be made twice."""
    await gateway.customer.create_customer({"customerName": "Ada"})


async def by_callers(gateway: GatewaySession, call: Callable[[GatewaySession], Any]) -> None:
    """Let all callers make their share, one call after the other."""

    async def caller() -> None:
        for _ in range(CALLS // CALLERS):
            await call(gateway)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


async def by_bulk(gateway: GatewaySession) -> None:
    """Make the calls with `bulk.run`."""
    async for result in bulk.run(lambda _: read(gateway), range(CALLS), concurrency=CALLERS):
        if result.error is not None:
            raise result.error


WAYS: Final[dict[str, Callable[[GatewaySession], Awaitable[None]]]] = {
    "reads": lambda gateway: by_callers(gateway, read),
    "writes": lambda gateway: by_callers(gateway, write),
    "bulk": by_bulk,
}


async def measure(way: str, url: str, given: dict[str, Any]) -> Figures:
    """Measure connections by caller; of rare writes the time, divided by that of their replies."""
    del url, given
    figures: Figures = json.loads(child([sys.executable, "-m", __name__, way])[0])
    return figures


async def simulated(way: str, folder: Path) -> Figures:
    """Make the calls of a way to a server that is never away."""
    authority = Authority(folder, "benchmark")
    with pytest.MonkeyPatch.context() as patch:
        world, server = network.Network(patch), network.Server(authority.server(HOST))
        patch.setattr(network, "DELAY", ROUND_TRIP / 2)
        world.names[HOST], server.work = server, float
        settings: dict[str, Any] = {"access_token": "-", "tenant_id": "a", "verify": authority.path}
        async with GatewaySession(f"https://{HOST}", **settings) as gateway:
            if way in WAYS:
                await WAYS[way](gateway)
                return {"connections": world.opened / CALLERS}
            took = 0.0
            for _ in range(WRITES):
                began = now()
                await write(gateway)
                took += now() - began
                await asyncio.sleep(PAUSE)
            return {"time": took / (WRITES * ROUND_TRIP)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps(run(simulated(sys.argv[1], Path(temporary)))))
