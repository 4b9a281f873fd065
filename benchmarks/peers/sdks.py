"""Software development kits: OpenAI's, a well-known one; and ours, or a part of it."""

import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import httpx

from benchmarks.peers.request import BODY, HEADERS, JSON, PATH, TOKEN, Call, Open


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


def gateway_with(make_settings: Callable[[], Mapping[str, Any]]) -> Open:
    """Return what calls with a GatewaySession that has some settings."""

    @asynccontextmanager
    async def opened(url: str, connections: int) -> AsyncIterator[Call]:
        sdk = import_module("gateway_sdk")
        settings = {"access_token": TOKEN, "max_connections": connections, **make_settings()}
        async with sdk.GatewaySession(url, **settings) as gateway:

            async def call() -> Any:
                return await gateway.currency.exchange_rate_series(
                    base=BODY["base"],
                    symbols=BODY["symbols"],
                    start_date=BODY["startDate"],
                    end_date=BODY["endDate"],
                )

            yield call

    return opened


open_gateway = gateway_with(dict)


@asynccontextmanager
async def open_engine(url: str, connections: int) -> AsyncIterator[Call]:
    """Call with our engine alone: no session, token, retries, deadline, checks or models."""
    # The processes of other peers are without it.
    from gateway_sdk._http.request import PreparedRequest, RequestBase  # noqa: PLC0415
    from gateway_sdk._transport.engine import Engine  # noqa: PLC0415
    from gateway_sdk._transport.transmission import Request, Transmission  # noqa: PLC0415

    address, timeout = httpx.URL(url + PATH), httpx.Timeout(30)
    engine = Engine(address, connections, ssl.create_default_context)
    fields = [
        (b"Host", address.netloc),
        (b"Authorization", HEADERS["Authorization"].encode()),
        (b"Content-Type", b"application/json"),
    ]
    base, framing = RequestBase("POST", address, fields), [(b"Content-Length", b"%d" % len(JSON))]
    prepared = PreparedRequest(base, address.raw_path, JSON, len(JSON), framing)

    async def call() -> Any:
        transmission = Transmission()
        reply = await engine.exchange(Request(prepared, base, framing, timeout, transmission))
        body = reply.body
        if reply.stream is not None:
            body += b"".join([piece async for piece in reply.stream])
            await reply.stream.aclose()
        if reply.status != httpx.codes.OK:
            raise ValueError("that is a refusal")
        return json.loads(body)

    try:
        yield call
    finally:
        await engine.aclose()
