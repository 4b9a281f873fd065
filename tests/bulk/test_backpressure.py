"""A 429 is back-pressure: the item waits until it is accepted, and no write is repeated."""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    DeadlineExceededError,
    GatewaySession,
    Outcome,
    RateLimitedError,
    RetryPolicy,
    bulk,
)
from tests.support import virtual_time

Answer = Callable[[httpx.Request], httpx.Response]


class Answering(httpx.AsyncBaseTransport):
    """Replies as a function decides; records paths and times."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, float]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.url.path.rsplit("/", 1)[-1], virtual_time.now()))
        return self.answer(request)

    def count(self, name: str) -> int:
        """Return how many requests had a path with this end."""
        return [path for path, _ in self.asked].count(name)


class PerSecond:
    """Accepts a number of requests per second, and asks the others to come in the next second."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._second = -1
        self._taken = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        second = int(virtual_time.now())
        if second != self._second:
            self._second, self._taken = second, 0
        self._taken += 1
        if self._taken > self._limit:
            return httpx.Response(429, headers={"Retry-After": "1"})
        return httpx.Response(200, json=[])


def fetch(
    transport: httpx.AsyncBaseTransport,
    call: Callable[[GatewaySession, int], Any],
    items: int,
    *,
    retry: RetryPolicy | None = None,
    **options: Any,
) -> list[bulk.BulkResult[int, Any]]:
    """Run over this number of items, in virtual time."""

    async def main() -> list[bulk.BulkResult[int, Any]]:
        gateway = GatewaySession(
            "http://localhost",
            access_token="-",
            tenant_id="acme",
            transport=transport,
            retry=retry,
        )
        async with gateway:
            run = bulk.run(lambda item: call(gateway, item), range(items), **options)
            return [result async for result in run]

    return virtual_time.run(main())


def list_countries(gateway: GatewaySession, _: int) -> Any:
    return gateway.country_data.list_countries()


@pytest.mark.parametrize("retry", [None, RetryPolicy()])
@pytest.mark.parametrize("concurrency", ["adaptive", 1, 20])
def test_a_rate_limit_fails_no_item(concurrency: Any, retry: RetryPolicy | None) -> None:
    """Twenty requests per second, with Retry-After: every item succeeds in the end."""
    transport = Answering(PerSecond(20))

    results = fetch(transport, list_countries, 240, concurrency=concurrency, retry=retry)

    assert [result.error for result in results] == [None] * 240
    assert sum(result.attempts for result in results) == len(transport.asked)


def refusing(times: int, retry_after: str | None = None) -> Answer:
    """Refuse a number of requests, and accept later ones."""
    numbers = itertools.count()

    def answer(_: httpx.Request) -> httpx.Response:
        if next(numbers) >= times:
            return httpx.Response(200, json=[])
        return httpx.Response(429, headers={"Retry-After": retry_after} if retry_after else {})

    return answer


@pytest.mark.parametrize(
    ("retry_after", "least"),
    [("7", [7] * 5), (None, [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30])],
)
def test_waits_are_those_asked_for_or_double(retry_after: str | None, least: list[float]) -> None:
    """With a random addition of at most one second; attempts before them count."""
    transport = Answering(refusing(len(least), retry_after))

    (result,) = fetch(transport, list_countries, 1)

    times = [time for _, time in transport.asked]
    waits = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert (result.error, result.attempts) == (None, len(least) + 1)
    assert all(asked <= wait <= asked + 1 for asked, wait in zip(least, waits, strict=True))


def test_refused_items_do_not_come_back_together() -> None:
    """Each adds a random time, and none comes earlier than asked for."""
    transport = Answering(refusing(20, "3"))

    fetch(transport, list_countries, 20, concurrency=20)

    back = [time for _, time in transport.asked if time > 0]
    assert len(set(back)) == 20
    assert min(back) >= 3


def test_the_deadline_ends_the_waiting() -> None:
    """The error says that the deadline passed and that nothing was done."""
    transport = Answering(refusing(10**6, "4"))

    results = fetch(transport, list_countries, 2, deadline=10.0)

    for result in results:
        assert isinstance(result.error, DeadlineExceededError)
        assert result.error.outcome in (Outcome.REFUSED, Outcome.NOT_SENT)
        assert len(result.error.attempts) <= 1
    assert sum(result.attempts for result in results) == len(transport.asked)


@pytest.mark.parametrize(("patience", "requests"), [(0, 1), (3.9, 1), (11.9, 3)])
def test_the_patience_of_the_user_ends_the_waiting(patience: float, requests: int) -> None:
    """The 429 is then the result of the item."""
    transport = Answering(refusing(10**6, "4"))

    (result,) = fetch(transport, list_countries, 1, patience=patience)

    assert isinstance(result.error, RateLimitedError)
    assert len(transport.asked) == result.attempts == requests


@pytest.mark.parametrize(
    ("calls", "statuses", "fails"),
    [
        ("write", [429, 429, 429, 200], False),  # a 429 proves that no customer was created
        ("write, read", [200, 429], True),  # the write would be repeated
        ("read, read", [200, 429, 200, 200], False),
    ],
)
def test_an_item_is_begun_again_if_this_repeats_no_write(
    calls: str, statuses: list[int], fails: bool
) -> None:
    """Else the 429 is its result."""
    replies = iter(statuses)

    async def call(gateway: GatewaySession, item: int) -> None:
        for name in calls.split(", "):
            if name == "write":
                await gateway.customer.create_customer({})
            else:
                await list_countries(gateway, item)

    transport = Answering(lambda _: httpx.Response(next(replies), json=[]))
    (result,) = fetch(transport, call, 1)

    assert isinstance(result.error, RateLimitedError) is fails
    assert len(transport.asked) == result.attempts == len(statuses)


def test_a_refusal_of_an_unobserved_call_is_a_result() -> None:
    """A call that the run did not observe may have been made beside writes."""
    error = RateLimitedError("429", status=429)
    error.operation = "create_customer"
    called = 0

    async def call(_: GatewaySession, __: int) -> None:
        nonlocal called
        called += 1
        raise error

    (result,) = fetch(Answering(refusing(0)), call, 1)

    assert result.error is error
    assert called == 1


def test_a_refusal_that_the_function_raises_itself_is_waited_out() -> None:
    """A RateLimitedError without an operation only asks to call again later."""
    times: list[float] = []

    async def call(_: GatewaySession, __: int) -> int:
        times.append(virtual_time.now())
        if len(times) < 3:
            error = RateLimitedError("429", status=429)
            error.retry_after = 2.0
            raise error
        return len(times)

    (result,) = fetch(Answering(refusing(0)), call, 1)

    assert result.value == 3
    assert all(later - sooner >= 2 for sooner, later in itertools.pairwise(times))


def test_an_item_with_a_write_in_flight_is_not_begun_again() -> None:
    """The write may be done while the other call is refused, and would be repeated."""

    class SlowWrites(Answering):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            if response.is_success:
                await asyncio.sleep(5)
            return response

    async def call(gateway: GatewaySession, _: int) -> None:
        await asyncio.gather(
            gateway.customer.create_customer({}), gateway.country_data.list_countries()
        )

    transport = SlowWrites(
        lambda request: httpx.Response(200 if "create" in request.url.path else 429, json={})
    )
    (result,) = fetch(transport, call, 1, patience=60)

    assert isinstance(result.error, RateLimitedError)
    assert transport.count("create") == 1
