"""A list of 250 countries, from the socket to models."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from types import GenericAlias
from typing import Any, Final

from benchmarks.measures.load import Figures, counted
from benchmarks.peers import OURS
from benchmarks.peers.request import HEADERS, TOKEN

PATH: Final = "/countrydata/1.0.0/listData"
COUNT: Final = 250
Fetch = Callable[[], Awaitable[Any]]


@asynccontextmanager
async def by_gateway(url: str) -> AsyncIterator[Fetch]:
    """Fetch with the SDK."""
    sdk = import_module("gateway_sdk")
    async with sdk.GatewaySession(url, access_token=TOKEN) as gateway:
        yield gateway.country_data.list_countries


@asynccontextmanager
async def by_hand(url: str, client: str) -> AsyncIterator[Fetch]:
    """Fetch with httpx or aiohttp, and validate the decoded JSON with the SDK's models."""
    country = import_module("gateway_sdk.models").Country
    adapter: Any = import_module("pydantic").TypeAdapter(GenericAlias(list, (country,)))
    if client == "aiohttp":
        async with import_module("aiohttp").ClientSession(headers=HEADERS) as session:

            async def fetch() -> Any:
                async with session.post(url + PATH) as reply:
                    return adapter.validate_python(await reply.json())

            yield fetch
            return
    async with import_module("httpx").AsyncClient(headers=HEADERS) as session:

        async def fetch() -> Any:
            return adapter.validate_python((await session.post(url + PATH)).json())

        yield fetch


async def measure(peer: str, url: str, given: dict[str, Any]) -> Figures:
    """Measure the CPU time of one list, in microseconds, of `lists` in turn, and of long ones."""
    short = await _measured(peer, url, url, given["lists"], COUNT)
    long = await _measured(peer, f"{url}/long", url, given["long"], 125 * COUNT)
    return {"cpu_us": short, "long_cpu_us": long}


async def _measured(peer: str, url: str, server: str, lists: int, count: int) -> float:
    opened = by_gateway(url) if peer == OURS else None
    async with opened or by_hand(url, peer) as fetch:

        async def work() -> int:
            for _ in range(lists):
                if len(await fetch()) != count:
                    raise ValueError("that is not the list")
            return lists

        await work()
        return (await counted(server, work))["cpu_us"]
