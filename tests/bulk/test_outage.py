"""An outage is waited out, a bad item is a result, and a refused token ends the run."""

import asyncio
import itertools
import time
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    Advice,
    ConnectionFailedError,
    DeadlineExceededError,
    GatewayError,
    GatewaySession,
    LoginRequiredError,
    OutageError,
    ReplyLostError,
    RetryBudget,
    RetryPolicy,
    ServerError,
    SessionStateError,
    Token,
    UnauthorizedError,
    bulk,
)
from tests.bulk.journal.journals import rows
from tests.bulk.test_backpressure import Answering, fetch
from tests.support import virtual_time

Kind = Callable[[httpx.Request], httpx.Response]
BAD = httpx.Response(500)


def cut(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("cut")


def unavailable(_: httpx.Request) -> httpx.Response:
    return httpx.Response(503)


def done(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={})


def orders(gateway: GatewaySession, item: int) -> Any:
    """Ask for the page of an item, so that the gateway knows it."""
    return gateway.wallet.trading_order_history(str(item))


def item_of(request: httpx.Request) -> int:
    return int(request.url.path.split("/")[3])


class Away:
    """Fails in some way from one second to another."""

    def __init__(self, how: Kind, begin: float = 0.0, end: float = 1e9) -> None:
        self.how, self.begin, self.end = how, begin, end

    def __call__(self, request: httpx.Request) -> httpx.Response:
        is_away = self.begin <= virtual_time.now() < self.end
        return (self.how if is_away else done)(request)


class Slow(Answering):
    """Takes a tenth of a second for each reply."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.1)
        return await super().handle_async_request(request)


@pytest.mark.parametrize("concurrency", ["adaptive", 1, 20])
@pytest.mark.parametrize("how", [cut, unavailable])
@pytest.mark.parametrize("retry", [None, RetryPolicy()])
def test_nothing_is_lost_while_the_gateway_is_away(
    how: Kind, concurrency: Any, retry: RetryPolicy | None
) -> None:
    """The run waits, says for what and since when, and goes on."""
    told: list[bulk.Progress] = []
    transport = Slow(Away(how, begin=0.3, end=31.0))

    results = fetch(
        transport, orders, 300, concurrency=concurrency, retry=retry, on_progress=told.append
    )

    assert [result.error for result in results] == [None] * 300
    waiting = [progress.outage for progress in told if progress.outage]
    assert waiting
    assert waiting[0].since.tzinfo is UTC
    assert waiting[0].error.advice is Advice.REPEAT
    assert told[-1].outage is None
    asked = [moment for _, moment in transport.asked if 5.0 <= moment < 31.0]
    assert 0 < len(asked) < 100  # with pauses, and one at a time


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("concurrency", ["adaptive", 1, 20])
@pytest.mark.parametrize("bad", [{7}, {299}, set(range(50, 110)), {3, 100, 101, 102, 200}])
def test_bad_items_fail_alone(bad: set[int], concurrency: Any, ordered: bool) -> None:
    """They are tried in two later rounds; also many in a row stop no other item for long."""
    transport = Slow(lambda request: BAD if item_of(request) in bad else done(request))

    results = fetch(transport, orders, 300, concurrency=concurrency, ordered=ordered)

    assert {result.item for result in results if result.error} == bad
    assert not ordered or [result.item for result in results] == list(range(300))
    for result in results:
        assert result.attempts == 1 or result.item in bad
        assert result.error is None or result.attempts >= 3
    assert sum(result.attempts for result in results) == len(transport.asked)


@pytest.mark.parametrize("how", [cut, unavailable])
@pytest.mark.parametrize("patience", [0, 100])
def test_a_dead_gateway_is_one_error(how: Kind, patience: float) -> None:
    """When the patience ends, the run ends too."""
    transport = Slow(Away(how, begin=0.3))
    moments: list[float] = []

    with pytest.raises(OutageError, match=f"no success for {patience} s, since ") as caught:
        fetch(
            transport,
            orders,
            300,
            patience=patience,
            on_progress=lambda _: moments.append(virtual_time.now()),
        )

    assert caught.value.advice is Advice.REPEAT
    assert isinstance(caught.value.__cause__, ReplyLostError | ServerError)
    assert transport.asked[-1][1] <= moments[-1] + patience


def run_with(
    call: Callable[[int], Any], items: int = 40, **options: Any
) -> list[bulk.BulkResult[int, Any]]:
    """Run without a session, in virtual time."""

    async def main() -> list[bulk.BulkResult[int, Any]]:
        run = bulk.run(call, range(items), concurrency=4, **options)
        return [result async for result in run]

    return virtual_time.run(main())


def test_an_outage_at_the_end_of_a_run_is_waited_out_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A single item is left, and there is no connection: that cannot be the item's fault.

    Who has no `on_progress` finds it in the log.
    """

    async def call(item: int) -> int:
        if virtual_time.now() < 60.0:
            raise ConnectionFailedError("away")
        return item

    caplog.set_level("WARNING", "gateway_sdk.bulk")
    (result,) = run_with(call, 1, patience=None)

    assert result.error is None
    assert caplog.messages == ["a bulk run waits, because of: away", "a bulk run goes on"]


def test_a_refused_token_that_cannot_be_renewed_ends_the_run_at_once() -> None:
    """All other items would fail too; those that are done stay done."""
    count = itertools.count()
    transport = Slow(lambda request: done(request) if next(count) < 20 else httpx.Response(401))
    seen: list[bulk.Progress] = []

    with pytest.raises(UnauthorizedError) as caught:
        fetch(transport, orders, 300, concurrency=4, on_progress=seen.append)

    assert caught.value.token_is_static
    assert seen[-1].done == 20
    assert len(transport.asked) <= 24


def test_a_token_that_expires_and_cannot_be_renewed_ends_the_run_at_once() -> None:
    """As one that is refused; nothing is sent with it."""

    async def main() -> None:
        transport = Answering(done)
        token = Token("t", expires_at=time.time() - 1)
        async with GatewaySession(
            "http://localhost", access_token=token, tenant_id="acme", transport=transport
        ) as gateway:
            async for _ in bulk.run(lambda item: orders(gateway, item), range(300)):
                pytest.fail("a result")

    with pytest.raises(LoginRequiredError) as caught:
        virtual_time.run(main())
    assert caught.value.token_is_static


@pytest.mark.parametrize("advice", [Advice.LOG_IN, Advice.REPEAT])
def test_a_missing_login_is_waited_for(advice: Advice) -> None:
    """It is an outage from the first item on; an error that may pass, from the fifth one."""
    calls: list[tuple[int, float]] = []

    async def call(item: int) -> int:
        await asyncio.sleep(0.1)
        calls.append((item, virtual_time.now()))
        if 0.35 < virtual_time.now() < 50.0:
            error = LoginRequiredError if advice is Advice.LOG_IN else ConnectionFailedError
            raise error("away")
        return item

    results = run_with(call)

    assert [result.error for result in results] == [None] * 40
    at_once = [moment for _, moment in calls if 0.35 < moment < 1.0]
    assert len(at_once) == (4 if advice is Advice.LOG_IN else 8)
    assert 0 < len([moment for _, moment in calls if 1.0 < moment < 50.0]) < 10


def test_what_is_no_error_of_a_call_leaves_the_outage_as_it_is() -> None:
    """The call that tries ends with a bug of the user's function: the next item tries."""
    failing = iter([*[ConnectionFailedError("away")] * 4, ConnectionFailedError("away")])

    async def call(item: int) -> int:
        await asyncio.sleep(0.1)
        if (error := next(failing, None)) is not None:
            raise error
        if not bugs and virtual_time.now() < 30.0:
            bugs.append(item)
            raise ZeroDivisionError
        return item

    bugs: list[int] = []
    results = run_with(call)

    assert [result.item for result in results if result.error] == bugs
    assert len(results) == 40


def test_the_deadline_ends_what_waits_and_what_is_to_be_tried_again() -> None:
    """An item that failed before has its own error; the others were not begun."""

    async def call(item: int) -> int:
        if item == 0:
            raise ConnectionFailedError("bad")
        if item > 20:
            await asyncio.sleep(1000)
        return item

    results = {result.item: result.error for result in run_with(call, deadline=10)}

    assert isinstance(results[0], ConnectionFailedError)
    assert all(results[item] is None for item in range(1, 21))
    assert all(isinstance(results[item], DeadlineExceededError) for item in range(21, 40))


def test_the_deadline_ends_an_outage() -> None:
    """All items have a result: nothing was sent for them."""
    results = fetch(Slow(Away(cut)), orders, 40, deadline=20.0)

    errors = [result.error for result in results]
    assert len(errors) == 40
    assert all(isinstance(error, GatewayError) for error in errors)


async def test_an_item_that_fails_while_the_run_is_closed_has_no_row(tmp_path: Path) -> None:
    """Nothing is started for it any more: the journal is being closed."""
    path, gate, failing = tmp_path / "journal.db", asyncio.Event(), asyncio.Event()

    async def call(item: int) -> int:
        if item == 1:
            await gate.wait()
            failing.set()  # whoever waits for it goes on before this task has ended
            raise ConnectionFailedError("bad")
        return item

    run = bulk.run(call, range(2), concurrency=2, journal=path, job="test")
    await anext(run)
    gate.set()
    await failing.wait()
    await run.aclose()

    assert [row["item"] for row in rows(path)] == [0]


async def test_an_item_that_waits_for_its_next_round_has_no_row(tmp_path: Path) -> None:
    """A run that is closed or killed meanwhile begins it again."""
    path = tmp_path / "journal.db"

    async def call(item: int) -> int:
        if item == 0:
            raise ConnectionFailedError("bad")
        return item

    run = bulk.run(call, range(10), concurrency=1, journal=path, job="test")
    assert (await anext(run)).item == 1
    await run.aclose()

    assert 0 not in {row["item"] for row in rows(path)}


def test_a_fifth_of_the_replies_may_be_cut_and_each_item_is_fetched() -> None:
    """With the retries of a run, and its later rounds."""
    chance = iter(range(10**9))
    transport = Slow(lambda request: cut(request) if next(chance) % 5 == 0 else done(request))

    results = fetch(
        transport, orders, 610, concurrency=10, retry=RetryPolicy(attempts=3, backoff=0.1)
    )

    assert [result.error for result in results] == [None] * 610
    assert max(result.attempts for result in results) <= 6


def test_retries_of_a_run_leave_the_budget_of_its_session_alone() -> None:
    """Afterwards the session has the one retry that it had."""
    asked: set[str] = set()

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path in asked:
            return done(request)
        asked.add(request.url.path)
        return cut(request)

    async def main() -> None:
        gateway = GatewaySession(
            "http://localhost",
            access_token="-",
            transport=Slow(answer),
            retry_budget=RetryBudget(reserve=1, share=0, per_second=0),
        )
        async with gateway:
            run = bulk.run(lambda item: orders(gateway, item), range(20))
            assert [result.attempts async for result in run] == [2] * 20
            assert await orders(gateway, 20) == {}

    virtual_time.run(main())


def test_a_session_that_is_closed_stays_closed() -> None:
    """Its error may pass with another session, which a run cannot have: nothing is waited for."""
    calls: list[int] = []

    async def main() -> list[bulk.BulkResult[int, Any]]:
        gateway = GatewaySession("http://localhost", access_token="-")
        await gateway.aclose()

        async def call(item: int) -> Any:
            calls.append(item)
            return await orders(gateway, item)

        return [result async for result in bulk.run(call, range(20))]

    results = virtual_time.run(main())

    assert all(isinstance(result.error, SessionStateError) for result in results)
    assert sorted(calls) == list(range(20))
