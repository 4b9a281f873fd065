"""The stock instrumentors beside: no span twice, and none of the token source lost."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import httpx
import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import INVALID_SPAN, TraceFlags

from gateway_sdk.otel import OpenTelemetry
from tests.otel.telemetry import (
    CANCELLING,
    Collector,
    calling,
    id_of,
    parent_of,
    reply,
    traceparent_of,
)
from tests.support.calls import CALLS


@pytest.fixture(params=["the default", "transport=", "http_client="])
async def way(request: pytest.FixtureRequest) -> AsyncIterator[dict[str, Any]]:
    """What sends the requests: the engine, and httpx itself, which is instrumented."""
    if request.param == "transport=":
        yield {"transport": httpx.AsyncHTTPTransport()}
    elif request.param == "http_client=":
        async with httpx.AsyncClient(timeout=60) as client:
            yield {"http_client": client}
    else:
        yield {}


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    with made.instrumented():
        yield made


async def by_httpx(url: str) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        await client.get(url)


async def by_aiohttp(url: str) -> None:
    async with aiohttp.ClientSession() as client, client.get(url):
        pass


each_client = pytest.mark.parametrize("get", [by_httpx, by_aiohttp])


async def test_no_attempt_is_traced_twice(way: dict[str, Any], collector: Collector) -> None:
    """The gateway sees our span as the parent, and there is no other, whoever sends."""
    replies = reply(429, Retry_After="0"), reply(200)
    async with calling(collector.observer, *replies, **way) as (gateway, sending):
        await CALLS["cancel_order"](sending)

    assert [span.name for span in collector.spans] == [CANCELLING, CANCELLING, "cancel_order"]
    assert [request["traceparent"] for request in gateway.requests] == [
        traceparent_of(span) for span in collector.attempts
    ]


@each_client
async def test_requests_of_the_token_source_are_traced(
    way: dict[str, Any], get: Any, collector: Collector
) -> None:
    async def token() -> str:
        await get(gateway.url)
        return "t"

    async with calling(collector.observer, access_token=token, **way) as (gateway, sending):
        await CALLS["cancel_order"](sending)

    assert [span.name for span in collector.spans] == ["GET", CANCELLING, "cancel_order"]
    asked, sent, call = collector.spans
    assert parent_of(asked) == parent_of(sent) == id_of(call)


@pytest.mark.parametrize("is_on", [True, False])
async def test_baggage_is_never_sent(
    way: dict[str, Any], is_on: bool, collector: Collector
) -> None:
    """It may hold personal data: the global propagator would send it, also by an instrumentor."""
    observer = OpenTelemetry(collector.traces, propagate=is_on)
    token = context.attach(baggage.set_baggage("person", "Ada"))
    try:
        async with calling(observer, **way) as (gateway, sending):
            await CALLS["cancel_order"](sending)
    finally:
        context.detach(token)

    assert "baggage" not in gateway.requests[0]
    assert ("traceparent" in gateway.requests[0]) is is_on


async def test_what_is_not_sampled_is_still_passed_on(way: dict[str, Any]) -> None:
    collector = Collector(ALWAYS_OFF)
    with collector.instrumented():
        async with calling(collector.observer, reply(503), reply(200), **way) as (gateway, sending):
            await CALLS["order_history"](sending)

    first, second = (request["traceparent"].split("-") for request in gateway.requests)
    assert first == second
    assert not TraceFlags(int(first[3], 16)).sampled
    assert collector.spans == ()
    assert len(collector.metrics()["http.client.request.duration"]) == 2


async def test_without_an_sdk_nothing_is_sent() -> None:
    async with calling(OpenTelemetry()) as (gateway, sending):
        await CALLS["cancel_order"](sending)

    assert trace.get_current_span() is INVALID_SPAN
    assert "traceparent" not in gateway.requests[0]
