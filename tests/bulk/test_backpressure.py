"""A 429 is back-pressure: the item waits until it is accepted, and no write is repeated."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    DeadlineExceededError,
    GatewaySession,
    InvalidArgumentError,
    Outcome,
    RateLimitedError,
    RetryPolicy,
    bulk,
)
from tests.bulk.journal.journals import rows
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


def test_the_default_settings_fail_no_item_at_a_rate_limit() -> None:
    """No setting is needed."""
    results = fetch(Answering(PerSecond(20)), list_countries, 240, retry=RetryPolicy())

    assert [result.error for result in results] == [None] * 240


def refusing(times: int, retry_after: str | None = None) -> Answer:
    """Refuse a number of requests, and accept later ones."""
    numbers = itertools.count()

    def answer(_: httpx.Request) -> httpx.Response:
        if next(numbers) >= times:
            return httpx.Response(200, json=[])
        return httpx.Response(429, headers={"Retry-After": retry_after} if retry_after else {})

    return answer


def test_attempts_and_seconds_add_up() -> None:
    """Attempts before the waits count, and the waits too; no wait is shorter than asked for."""
    transport = Answering(refusing(5, "7"))

    (result,) = fetch(transport, list_countries, 1)

    times = [time for _, time in transport.asked]
    assert result.error is None
    assert result.attempts == 6
    assert all(7 <= later - sooner <= 8 for sooner, later in itertools.pairwise(times))


def test_waits_double_where_the_gateway_asks_for_none() -> None:
    """From half a second to half a minute, each with a random addition of at most one second."""
    transport = Answering(refusing(10))

    (result,) = fetch(transport, list_countries, 1)

    times = [time for _, time in transport.asked]
    waits = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert result.error is None
    expected = [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30]
    assert all(least <= wait <= least + 1 for least, wait in zip(expected, waits, strict=True))


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


@pytest.mark.parametrize("patience", [-1, True, "1", float("nan")])
def test_a_wrong_patience_is_refused_at_once(patience: Any) -> None:
    """The error names it."""
    with pytest.raises(InvalidArgumentError, match="patience"):
        bulk.run(asyncio.sleep, [0.0], patience=patience)


def test_a_refused_write_may_be_repeated() -> None:
    """A 429 proves that no customer was created."""
    transport = Answering(refusing(3))

    (result,) = fetch(transport, lambda gateway, _: gateway.customer.create_customer({}), 1)

    assert result.error is None
    assert transport.count("create") == result.attempts == 4


async def test_the_journal_has_one_row_for_an_item_that_was_begun_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not begun while it waits after a refusal, and has one row in the end."""
    monkeypatch.setattr("random.random", lambda: 0.0)  # no waiting in real time
    transport = httpx.MockTransport(refusing(1, "0"))
    journal = tmp_path / "j.db"

    gateway = GatewaySession(
        "http://localhost", access_token="-", tenant_id="acme", transport=transport, retry=None
    )
    async with gateway:
        run = bulk.run(
            lambda _: gateway.customer.create_customer({}), [1], journal=journal, job="test"
        )
        (result,) = [result async for result in run]

    assert result.error is None
    assert [row["state"] for row in rows(journal)] == ["done"]


def test_an_item_that_has_written_is_not_begun_again() -> None:
    """Its first write would be repeated: the 429 of the second call is the result."""

    def answer(request: httpx.Request) -> httpx.Response:
        refuse = request.url.path.startswith("/countrydata")
        return httpx.Response(429) if refuse else httpx.Response(200, json={})

    async def call(gateway: GatewaySession, _: int) -> None:
        await gateway.customer.create_customer({})
        await gateway.country_data.list_countries()

    transport = Answering(answer)
    (result,) = fetch(transport, call, 1)

    assert isinstance(result.error, RateLimitedError)
    assert len(transport.asked) == result.attempts == 2


def test_an_item_that_has_only_read_is_begun_again() -> None:
    """The reads before the refused call are repeated."""
    refused = iter([False, True, False, False])

    async def twice(gateway: GatewaySession, _: int) -> None:
        await gateway.country_data.list_countries()
        await gateway.country_data.list_countries()

    transport = Answering(lambda _: httpx.Response(429 if next(refused) else 200, json=[]))
    (result,) = fetch(transport, twice, 1)

    assert result.error is None
    assert result.attempts == 4


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
