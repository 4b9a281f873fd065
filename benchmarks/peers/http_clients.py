"""General HTTP clients: aiohttp, httpx, httpx2, pyreqwest."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.peers.request import BODY, HEADERS, PATH, Call, Open


@asynccontextmanager
async def open_aiohttp(url: str, connections: int) -> AsyncIterator[Call]:
    """Call with an aiohttp.ClientSession."""
    aiohttp = import_module("aiohttp")
    connector = aiohttp.TCPConnector(limit=connections)
    async with aiohttp.ClientSession(
        connector=connector, headers=HEADERS, raise_for_status=True
    ) as session:

        async def call() -> Any:
            async with session.post(url + PATH, json=BODY) as reply:
                return await reply.json()

        yield call


def open_httpx(name: str) -> Open:
    """Return what calls with the AsyncClient of httpx, or of httpx2, which has the same face."""

    @asynccontextmanager
    async def opened(url: str, connections: int) -> AsyncIterator[Call]:
        httpx = import_module(name)
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        async with httpx.AsyncClient(headers=HEADERS, limits=limits) as client:

            async def call() -> Any:
                reply = await client.post(url + PATH, json=BODY)
                return reply.raise_for_status().json()

            yield call

    return opened


@asynccontextmanager
async def open_pyreqwest(url: str, connections: int) -> AsyncIterator[Call]:
    """Call with the client of pyreqwest, which sends in threads of Rust."""
    builder = import_module("pyreqwest.client").ClientBuilder()
    client = builder.default_headers(HEADERS).max_connections(connections).error_for_status()
    async with client.build() as session:

        async def call() -> Any:
            reply = await session.post(url + PATH).body_json(BODY).build().send()
            return await reply.json()

        yield call
