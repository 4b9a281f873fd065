"""The histograms: what they count, in which seconds, with which attributes."""

import asyncio
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.metrics.export import HistogramDataPoint

from gateway_sdk import GatewayError, GatewaySession
from tests.otel.telemetry import Collector, calling, reply
from tests.support.calls import CALLS
from tests.support.raw_server import raw_server
from tests.support.scripted import scripted

REQUEST = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)


def points_of(points: list[HistogramDataPoint]) -> list[tuple[int, dict[str, Any]]]:
    return [(point.count, dict(point.attributes or {})) for point in points]


async def test_calls_and_attempts_are_counted_apart() -> None:
    collector = Collector()
    replies = reply(503), reply(200), reply(404)
    async with calling(collector.observer, *replies) as (gateway, sending):
        await CALLS["order_history"](sending)
        with pytest.raises(GatewayError):
            await CALLS["cancel_order"](sending)
        gateway.silent = True
        given_up = asyncio.create_task(CALLS["send_webhook"](sending))
        await gateway.taken.wait()
        given_up.cancel()
        await asyncio.wait([given_up])

    metrics = collector.metrics()
    assert set(metrics) == {"http.client.request.duration", "gateway.client.call.duration"}
    attempts = metrics["http.client.request.duration"]
    assert {point.explicit_bounds for point in attempts} == {REQUEST}
    server = {"server.address": "127.0.0.1", "server.port": int(gateway.url.rpartition(":")[2])}
    post = {"gateway.operation": "order_history", "http.request.method": "POST", **server}
    delete = {"gateway.operation": "cancel_order", "http.request.method": "DELETE", **server}
    assert points_of(attempts) == [
        (1, {**post, "http.response.status_code": 503, "error.type": "503"}),
        (1, {**post, "http.response.status_code": 200}),
        (1, {**delete, "http.response.status_code": 404, "error.type": "404"}),
        (1, {**post, "gateway.operation": "send_webhook"}),
    ]
    calls = metrics["gateway.client.call.duration"]
    assert {point.explicit_bounds for point in calls} == {(*REQUEST, 30, 60, 300, 600)}
    refused = {"gateway.outcome": "REFUSED", "error.type": "NotFoundError"}
    assert points_of(calls) == [
        (1, {"gateway.operation": "order_history", "gateway.outcome": "APPLIED"}),
        (1, {"gateway.operation": "cancel_order", **refused}),
        (1, {"gateway.operation": "send_webhook", "gateway.outcome": "UNKNOWN"}),
    ]


async def test_the_wait_for_a_slot_is_not_the_gateways() -> None:
    """It has a histogram of its own, and is taken off the duration of the request."""
    collector = Collector()
    may_answer = asyncio.Event()
    waiting = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            waiting.set()
            await may_answer.wait()
            writer.write(reply(200))

    async with (
        raw_server(handler) as url,
        GatewaySession(
            url, access_token="t", max_connections=1, observers=[collector.observer], timeout=None
        ) as sending,
    ):
        first, *others = (asyncio.create_task(CALLS["cancel_order"](sending)) for _ in range(3))
        await waiting.wait()
        while " 2 waiting" not in repr(sending._caller.shared._transport):  # noqa: ASYNC110
            await asyncio.sleep(0)
        others[1].cancel()
        await asyncio.wait(others[1:])
        may_answer.set()
        await asyncio.gather(first, others[0])

    (requests,) = collector.metrics()["http.client.request.duration"]
    assert requests.count == 2  # the third was not sent
    (waits,) = collector.metrics()["gateway.client.slot.wait"]
    assert waits.count == 2
    assert waits.sum > 0
    assert set(waits.attributes or ()) == {"server.address", "server.port"}
    assert waits.explicit_bounds == REQUEST


async def test_no_wait_makes_a_duration_negative(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two are read from two clocks."""
    collector = Collector()
    gateway, engine, _ = scripted(
        monkeypatch, lambda _: httpx.Response(200, json={}), observers=[collector.observer]
    )
    answer = engine.handle_async_request

    async def wait(request: httpx.Request) -> httpx.Response:
        request.extensions["gateway_sdk.transmission"].rate_wait = 5.0
        return await answer(request)

    monkeypatch.setattr(engine, "handle_async_request", wait)
    await CALLS["cancel_order"](gateway)

    (point,) = collector.metrics()["http.client.request.duration"]
    assert point.sum == 0.0
