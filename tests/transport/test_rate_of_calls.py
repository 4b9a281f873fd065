"""A rate limit over whole sessions: retries, renewals, views, deadlines. In virtual time."""

import asyncio
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from gateway_sdk import (
    Advice,
    Attempt,
    CallInfo,
    ConnectionFailedError,
    DeadlineExceededError,
    GatewaySession,
    GatewayTransport,
    Observer,
    Outcome,
    RateLimit,
    RetryPolicy,
    operations,
)
from gateway_sdk._transport.engine import Engine, Exchange
from gateway_sdk._transport.route import Route
from gateway_sdk.rate_limit import RateLimiter
from tests.support.calls import CALLS, Renewing
from tests.support.ports import free_port
from tests.support.raw_server import OK, Server, raw_server
from tests.support.virtual_time import in_virtual_time, now


class Gateway(httpx.AsyncBaseTransport):
    """Answers with one status after the other, the first time after so many seconds."""

    def __init__(self, *statuses: int, seconds: float = 0.0) -> None:
        self.times: list[float] = []  # when each request came
        self.tokens: list[str] = []
        self._statuses: Iterator[int] = cycle(statuses or (200,))
        self._seconds = seconds

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.times.append(now())
        self.tokens.append(request.headers["Authorization"])
        seconds, self._seconds = self._seconds, 0.0
        await asyncio.sleep(seconds)
        return httpx.Response(next(self._statuses), json={})

    def most_within(self, seconds: float) -> int:
        return max(
            sum(first <= time < first + seconds for time in self.times) for first in self.times
        )


Way = Callable[[pytest.MonkeyPatch, Gateway], dict[str, Any]]


def _engine(monkeypatch: pytest.MonkeyPatch, gateway: Gateway) -> dict[str, Any]:
    monkeypatch.setattr(Engine, "_has_mock", lambda _: True)
    monkeypatch.setattr(httpx, "AsyncHTTPTransport", lambda **_: gateway)
    return {}


WAYS: dict[str, Way] = {
    "engine": _engine,
    "transport=": lambda _, gateway: {"transport": gateway},
    "http_client=": lambda _, gateway: {"http_client": httpx.AsyncClient(transport=gateway)},
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def session(**options: Any) -> GatewaySession:
    policy = RetryPolicy(backoff=1.0, jitter=0.0, connect_wait=0.0)
    given = {"access_token": "t", "tenant_id": "acme", "retry": policy, "retry_budget": None}
    return GatewaySession(**{"base_url": "http://localhost", **given, **options})


@each_way
@pytest.mark.parametrize("statuses", [(200,), (503, 200, 429), (401, 200), (503, 401, 200, 200)])
@in_virtual_time
async def test_no_request_exceeds_the_limit(
    monkeypatch: pytest.MonkeyPatch, way: Way, statuses: tuple[int, ...]
) -> None:
    """First attempts, retries and renewals come out of one limit, and use all of it."""
    gateway = Gateway(*statuses)
    given = way(monkeypatch, gateway)
    async with session(access_token=Renewing(), rate_limit=RateLimit(5, 2.0), **given) as sending:
        await asyncio.gather(
            *[CALLS["order_history"](sending) for _ in range(23)], return_exceptions=True
        )

    assert gateway.most_within(2.0) == 5
    assert len(gateway.times) >= 23
    if statuses == (200,):
        assert gateway.times == [number // 5 * 2.0 for number in range(23)]
    if 401 in statuses:
        assert len(set(gateway.tokens)) > 1


async def waits_of(sending: GatewaySession) -> Attempt:
    return (await sending.send(operations.SPOT_TRADING_AVAILABLE_BALANCE)).attempts[0]


@each_way
@in_virtual_time
async def test_views_share_the_limit(monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    """Each attempt says how long it waited; that is part of its time, and not the gateway's."""
    gateway = Gateway()
    async with session(rate_limit=RateLimit(1, 2.0), **way(monkeypatch, gateway)) as sending:
        views = [sending, *(sending.with_options(tenant_id=name) for name in "ab")]
        attempts = await asyncio.gather(*map(waits_of, views))

    assert gateway.times == [0.0, 2.0, 4.0]
    assert [attempt.rate_wait for attempt in attempts] == gateway.times
    assert [attempt.slot_wait for attempt in attempts] == [0.0] * 3


@each_way
@in_virtual_time
async def test_waiting_counts_in_the_deadline(monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    """A call whose turn comes too late ends with its deadline, unsent, and takes no turn."""
    gateway = Gateway()
    async with session(rate_limit=RateLimit(1, 10.0), **way(monkeypatch, gateway)) as sending:
        hurried = sending.with_options(deadline=4.0)
        await CALLS["create_customer"](sending)
        late = asyncio.create_task(CALLS["create_customer"](hurried))
        await asyncio.sleep(0)
        patient = asyncio.create_task(CALLS["create_customer"](sending))
        with pytest.raises(DeadlineExceededError) as caught:
            await late
        assert now() == 4.0
        await patient

    assert caught.value.outcome is Outcome.NOT_SENT
    assert caught.value.advice is not Advice.CHECK
    assert gateway.times == [0.0, 10.0]


@pytest.mark.parametrize("in_a_client", [False, True])
@in_virtual_time
async def test_a_request_counts_from_when_it_is_sent(
    monkeypatch: pytest.MonkeyPatch, in_a_client: bool
) -> None:
    """The time that a connection takes to open brings no two turns together."""
    gateway = Gateway()
    client = httpx.AsyncClient(transport=GatewayTransport()) if in_a_client else None
    opening = iter([0.9, 0.9])

    async def connect(*_: object) -> Mock:
        await asyncio.sleep(next(opening, 0.0))
        return Mock()

    async def send(exchange: Exchange, *_: object) -> None:
        exchange._transmission.end_turn()
        gateway.times.append(now())
        exchange.reply.receive(OK)

    monkeypatch.setattr(Route, "open", connect)
    monkeypatch.setattr(Exchange, "send", send)
    async with session(rate_limit=RateLimit(2), http_client=client) as sending:
        await asyncio.gather(*[CALLS["order_history"](sending) for _ in range(6)])

    assert gateway.times == [0.9, 0.9, 1.9, 1.9, 2.9, 2.9]


@pytest.mark.parametrize(
    ("gateway", "limit", "calls", "times"),
    [
        # What queued for a connection does not burst out with permits from long ago.
        (Gateway(seconds=10.0), RateLimit(1), 5, [0.0, 10.0, 11.0, 12.0, 13.0]),
        # While one call waits to be made again, the next one is sent.
        (Gateway(503, 200, 200), RateLimit(1, 0.25), 2, [0.0, 0.25, 1.0]),
    ],
    ids=["a connection", "a back-off"],
)
@in_virtual_time
async def test_a_permit_is_taken_with_the_connection_in_hand(
    monkeypatch: pytest.MonkeyPatch,
    gateway: Gateway,
    limit: RateLimit,
    calls: int,
    times: list[float],
) -> None:
    _engine(monkeypatch, gateway)
    async with session(rate_limit=limit, max_connections=1) as sending:
        await asyncio.gather(*[CALLS["order_history"](sending) for _ in range(calls)])

    assert gateway.times == times


@in_virtual_time
async def test_each_attempt_says_how_long_it_waited_for_a_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also one that was cancelled while it waited."""

    class Last(Observer):
        attempt: Attempt

        def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
            self.attempt = attempt

    _engine(monkeypatch, Gateway(seconds=3.0))
    last = Last()
    async with session(max_connections=1, observers=[last]) as sending:
        calls = [asyncio.create_task(waits_of(sending)) for _ in range(3)]
        await asyncio.sleep(1.0)
        calls[1].cancel()
        await asyncio.wait([calls[1]])
        cancelled = last.attempt
        attempts = [await calls[0], await calls[2]]

    assert (cancelled.error, cancelled.slot_wait) == ("CancelledError", 1.0)
    assert [attempt.slot_wait for attempt in attempts] == [0.0, 3.0]
    assert [attempt.rate_wait for attempt in attempts] == [0.0] * 2


@pytest.mark.parametrize("listens", [True, False])
@pytest.mark.parametrize("in_a_client", [False, True])
async def test_every_turn_of_a_request_ends(in_a_client: bool, listens: bool) -> None:
    """What was sent counts once, and so does what could not be sent: nothing keeps its place."""
    async with (
        raw_server(Server().handle) as url,
        httpx.AsyncClient(transport=GatewayTransport()) as client,
    ):
        address = url if listens else f"http://127.0.0.1:{free_port()}"
        limit = RateLimit(4, 3600.0)
        given = {"base_url": address, "http_client": client if in_a_client else None}
        async with session(**given, rate_limit=limit, retry=None) as sending:
            calls = [CALLS["order_history"](sending) for _ in range(3)]
            ends = await asyncio.gather(*calls, return_exceptions=True)
            transport: Any = sending._caller.shared._transport
            limiter: RateLimiter = transport._limiter

    assert [isinstance(end, ConnectionFailedError) for end in ends] == [not listens] * 3
    assert (limiter._unsent, len(limiter._sent)) == (0, 3)
