"""How long a client holds the event loop while it is opened and used for the first time."""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from itertools import pairwise
from typing import Any, Final

from benchmarks.gateway_server import SERIES
from benchmarks.measures.load import Figures
from benchmarks.peers import OURS, PEERS
from benchmarks.peers.request import BODY, TOKEN, Call, Open, check
from benchmarks.processes import child

TICK: Final = 0.001
CALM: Final = 0.02
"""Seconds before and behind what is measured, so that there are ticks on both sides."""
Tick = tuple[float, float]
"""Seconds of the clock, and of the CPU time of all threads of the process."""


HTTPS: Final = f"{OURS}, https, at the first call"
STORED: Final = f"{OURS}, from_env, stored login"


@asynccontextmanager
async def over_tls(url: str, _: int) -> AsyncIterator[Call]:
    """Call without `async with`; the server has no TLS, so the first call ends in the handshake."""
    sdk = import_module("gateway_sdk")
    gateway = sdk.GatewaySession(url.replace("http", "https"), access_token=TOKEN, retry=None)

    async def call() -> Any:
        with suppress(sdk.ConnectionFailedError):
            await gateway.country_data.list_countries()
        return SERIES

    try:
        yield call
    finally:
        await gateway.aclose()


STORE: Final = """
import asyncio, json, sys
from gateway_sdk.session import token_store
from gateway_sdk.auth import Token
asyncio.run(token_store(json.loads(sys.argv[1])).save(Token(sys.argv[2], expires_at=4e9)))
"""


def with_login(url: str, folder: str) -> Open:
    """Return what calls with the token of a login, which another process stores now."""
    login = {"base_url": url, "auth_url": f"{url}/authorize", "client_id": "benchmark"}
    settings = {**login, "token_store": f"file:{folder}/tokens"}
    child([sys.executable, "-c", STORE, json.dumps(settings), TOKEN])

    @asynccontextmanager
    async def opened(_: str, connections: int) -> AsyncIterator[Call]:
        sdk = import_module("gateway_sdk")
        async with sdk.GatewaySession.from_env(max_connections=connections, **settings) as gateway:

            async def call() -> Any:
                return await gateway.currency.exchange_rate_series(*BODY.values())

            yield call

    return opened


def opener(peer: str, url: str, folder: str) -> Open:
    """Return how a variant is opened."""
    if peer == STORED:
        return with_login(url, folder)
    return over_tls if peer == HTTPS else PEERS[peer].open


async def measure(peer: str, url: str, given: dict[str, Any]) -> Figures:
    """Measure in milliseconds what a turn of the loop took at the most, and the first call.

    CPU time is that of all threads: what one of them does while the loop cannot run counts, and
    what other processes do in the meantime does not.
    """
    open_it = opener(peer, url, given["folder"])
    load(peer)
    ticks = list[Tick]()
    ticking = asyncio.create_task(tick(ticks))
    await asyncio.sleep(CALM)
    began = len(ticks)
    async with open_it(url, 1) as call:
        await asyncio.sleep(CALM)
        opened = len(ticks)
        first = await cost(call)
        await asyncio.sleep(CALM)
        ticking.cancel()
        later = [await cost(call) for _ in range(given["calls"])]
    held = {"opening": gaps(ticks[began - 1 : opened]), "first": gaps(ticks[opened - 1 :])}
    return {
        **{f"held_{name}_ms": max(wall for wall, _ in found) for name, found in held.items()},
        **{f"held_{name}_cpu_ms": max(cpu for _, cpu in found) for name, found in held.items()},
        "first_cpu_ms": max(0.0, first - statistics.median(later)),
    }


def load(peer: str) -> None:
    """Import what a program imports at its start."""
    module = import_module("gateway_sdk" if peer.startswith(OURS) else peer)
    if peer.startswith(OURS):
        module.GatewaySession  # noqa: B018 - is loaded when it is asked for


async def tick(ticks: list[Tick]) -> None:
    """Wake up again and again, and note when that was."""
    while True:
        ticks.append((time.perf_counter(), time.process_time()))
        await asyncio.sleep(TICK)


async def cost(call: Any) -> float:
    """Make a call, and return its CPU time in milliseconds."""
    began = time.process_time()
    check(await call())
    return (time.process_time() - began) * 1000


def gaps(ticks: list[Tick]) -> list[Tick]:
    """Return what passed from each tick to the next one, in milliseconds."""
    return [
        ((later - wall) * 1000, (more - cpu) * 1000)
        for (wall, cpu), (later, more) in pairwise(ticks)
    ]
