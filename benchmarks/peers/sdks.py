"""Software development kits: OpenAI's, as an example of the best known; and ours."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.peers.request import BODY, PATH, TOKEN, Call, Open


def open_openai(client_name: str) -> Open:
    """Return what calls with AsyncOpenAI over one of the two HTTP clients that it brings."""

    @asynccontextmanager
    async def opened(url: str, connections: int) -> AsyncIterator[Call]:
        openai = import_module("openai")
        limits = import_module("httpx2").Limits(
            max_connections=connections, max_keepalive_connections=connections
        )
        http_client = getattr(openai, client_name)(limits=limits)
        async with openai.AsyncOpenAI(
            api_key=TOKEN, base_url=url, http_client=http_client
        ) as client:

            async def call() -> Any:
                return await client.post(PATH, body=BODY, cast_to=object)

            yield call

    return opened


def open_gateway(engine: str) -> Open:
    """Return what calls with a GatewaySession on one of its engines."""

    @asynccontextmanager
    async def opened(url: str, connections: int) -> AsyncIterator[Call]:
        sdk = import_module("gateway_sdk")
        async with sdk.GatewaySession(
            url, access_token=TOKEN, engine=engine, max_connections=connections
        ) as gateway:

            async def call() -> Any:
                return await gateway.currency.exchange_rate_series(
                    base=BODY["base"],
                    symbols=BODY["symbols"],
                    start_date=BODY["startDate"],
                    end_date=BODY["endDate"],
                )

            yield call

    return opened
