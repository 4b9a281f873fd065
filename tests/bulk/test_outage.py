"""What is waited for: a gateway that is away or too busy; a bad item is a result."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import aclosing
from datetime import UTC
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from gateway_sdk import (
    Advice,
    GatewaySession,
    Outcome,
    RateLimit,
    RetryBudget,
    RetryPolicy,
    Token,
    bulk,
    errors,
)
from gateway_sdk.bulk._runner import AHEAD
from tests.bulk.runs import JOB, Answering, Memory, ask, list_countries, results_of, rows, session
from tests.support import virtual_time
from tests.support.calls import CALLS

Kind = Callable[[httpx.Request], httpx.Response]
BAD = httpx.Response(500)


def cut(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("cut")


def unavailable(_: httpx.Request) -> httpx.Response:
    return httpx.Response(503)


def done(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={})


def orders(gateway: GatewaySession, item: int) -> Any:
    return gateway.wallet.trading_order_history(str(item))


def item_of(request: httpx.Request) -> int:
    return int(request.url.path.split("/")[3])


def away(how: Kind, begin: float = 0.0, end: float = 1e9) -> Kind:
    def answer(request: httpx.Request) -> httpx.Response:
        return (how if begin <= virtual_time.now() < end else done)(request)

    return answer


slow = partial(Answering, seconds=0.1)


@pytest.mark.parametrize("concurrency", ["adaptive", 1, 20])
@pytest.mark.parametrize("how", [cut, unavailable])
@pytest.mark.parametrize("retry", [None, RetryPolicy()])
def test_nothing_is_lost_while_the_gateway_is_away(
    how: Kind, concurrency: Any, retry: RetryPolicy | None
) -> None:
    told: list[bulk.Progress] = []
    transport = slow(away(how, begin=0.3, end=31.0))
    options = {"concurrency": concurrency, "retry": retry, "on_progress": told.append}

    results = ask(transport, orders, 150, **options)

    assert [result.error for result in results] == [None] * 150
    waiting = [progress.outage for progress in told if progress.outage]
    assert waiting[0].since.tzinfo is UTC
    assert waiting[0].error.advice is Advice.REPEAT
    assert told[-1].outage is None
    asked = [moment for _, moment in transport.asked if 5.0 <= moment < 31.0]
    assert 0 < len(asked) < 100  # with pauses, and one at a time


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("concurrency", ["adaptive", 1, 20])
@pytest.mark.parametrize("bad", [{7}, {149}, set(range(50, 110)), {3, 100, 101, 102, 120}])
def test_bad_items_fail_alone(bad: set[int], concurrency: Any, ordered: bool) -> None:
    transport = slow(lambda request: BAD if item_of(request) in bad else done(request))

    results = ask(transport, orders, 150, concurrency=concurrency, ordered=ordered)

    assert {result.item for result in results if result.error} == bad
    assert not ordered or [result.item for result in results] == list(range(150))
    for result in results:
        assert result.attempts == 1 or result.item in bad
        assert result.error is None or result.attempts >= 3
    assert sum(result.attempts for result in results) == len(transport.asked)


@pytest.mark.parametrize("how", [cut, unavailable])
@pytest.mark.parametrize("patience", [0, 100])
def test_a_dead_gateway_is_one_error(how: Kind, patience: float) -> None:
    transport = slow(away(how, begin=0.3))
    moments: list[float] = []
    options: dict[str, Any] = {"on_progress": lambda _: moments.append(virtual_time.now())}

    with pytest.raises(errors.OutageError, match=f"no success for {patience} s, since ") as caught:
        ask(transport, orders, 300, patience=patience, **options)

    assert caught.value.advice is Advice.REPEAT
    assert isinstance(caught.value.__cause__, errors.ReplyLostError | errors.ServerError)
    assert transport.asked[-1][1] <= moments[-1] + patience


@pytest.mark.parametrize(
    ("token", "kind", "fetched"),
    [
        ("t", errors.UnauthorizedError, 20),
        (Token("t", expires_at=1.0), errors.LoginRequiredError, 0),
    ],
)
def test_a_token_that_cannot_be_renewed_ends_the_run_at_once(
    token: str | Token, kind: type[errors.GatewayError], fetched: int
) -> None:
    """All other items would fail too; what is done stays done, and an expired one is not sent."""
    left, seen = iter(range(20)), list[bulk.Progress]()
    transport = slow(lambda it: httpx.Response(401) if next(left, None) is None else done(it))

    with pytest.raises(kind) as caught:
        ask(transport, orders, 300, token=token, concurrency=4, on_progress=seen.append)

    assert caught.value.token_is_static
    assert len(seen) == fetched
    assert len(transport.asked) <= 1.2 * fetched


@pytest.mark.parametrize(
    ("kind", "count", "begin", "failing"),
    [
        (errors.LoginRequiredError, 40, 0.35, 4),
        (errors.ConnectionFailedError, 40, 0.35, 8),
        # That there is no connection cannot be the fault of the single item that is left.
        (errors.ConnectionFailedError, 1, 0.0, 3),
    ],
)
def test_a_missing_login_is_waited_for(
    caplog: pytest.LogCaptureFixture,
    kind: type[errors.GatewayError],
    count: int,
    begin: float,
    failing: int,
) -> None:
    """It is an outage from the first item on; an error that may pass, from the fifth one."""
    asked: list[float] = []

    async def call(item: int) -> int:
        await asyncio.sleep(0.1)
        asked.append(virtual_time.now())
        if begin < asked[-1] < 50.0:
            raise kind("away")
        return item

    caplog.set_level("WARNING", "gateway_sdk.bulk")
    results = results_of(call, range(count), concurrency=4, patience=None)

    assert [result.error for result in results] == [None] * count
    assert caplog.messages == ["a bulk run waits, because of: away", "a bulk run goes on"]
    assert [record.args for record in caplog.records] == [("away",), ()]  # a text, and no error
    assert sum(begin < moment < 1.0 for moment in asked) == failing
    assert 0 < sum(1.0 < moment < 50.0 for moment in asked) < 10


@pytest.mark.parametrize("ordered", [False, True])
def test_an_outage_does_not_take_all_equal_items(ordered: bool) -> None:
    """A new item may be better to try with, but one that waits for the same call is none."""
    taken: list[int] = []

    async def call(item: int) -> int:
        if item and virtual_time.now() < 20.0:
            raise errors.LoginRequiredError("away")
        return item

    def items() -> Iterator[int]:
        for item in [0, *[1] * 1000]:
            taken.append(len(taken) if virtual_time.now() < 20.0 else 0)
            yield item

    options = {"key": str, "ordered": ordered, "concurrency": 2}
    assert [result.value for result in results_of(call, items(), **options)] == [0, *[1] * 1000]
    assert max(taken) < 2 * 2 * AHEAD


def test_a_gateway_that_answers_is_not_away() -> None:
    transport = Answering(lambda request: httpx.Response(404 if item_of(request) % 2 else 503))

    assert len(ask(transport, orders, 20, concurrency=1, patience=0)) == 20


def test_what_is_no_error_of_a_call_leaves_the_outage_as_it_is() -> None:
    """The call that tries ends with a bug of the user's function: the next item tries."""
    failing, bugs = iter(range(5)), list[int]()

    async def call(item: int) -> int:
        await asyncio.sleep(0.1)
        if next(failing, None) is not None:
            raise errors.ConnectionFailedError("away")
        if not bugs and virtual_time.now() < 30.0:
            bugs.append(item)
            raise ZeroDivisionError
        return item

    results = results_of(call, range(40), concurrency=4)

    assert [result.item for result in results if result.error] == bugs
    assert len(results) == 40


@pytest.mark.parametrize(("away", "failing"), [(1, 1), (40, 11)], ids=["an item", "an outage"])
def test_the_deadline_ends_what_waits_for_another_try(away: int, failing: int) -> None:
    async def call(item: int) -> int:
        if item < away:
            raise errors.ConnectionFailedError("bad")
        if item > 20:
            await asyncio.sleep(1000)
        return item

    ledger = Memory()
    results = results_of(call, range(40), concurrency=4, deadline=10, journal=ledger)

    late = dict.fromkeys(range(40), errors.DeadlineExceededError)
    fine = dict.fromkeys(range(away, 21), type(None))
    assert {result.advice for result in results if result.error} == {Advice.REPEAT}
    failed = dict.fromkeys(range(failing), errors.ConnectionFailedError)
    assert {result.item: type(result.error) for result in results} == {**late, **fine, **failed}
    # Of this run alone: the next one makes their calls again.
    assert [entry.state for entry in ledger.entries.values()] == ["done"] * len(fine)


async def test_an_item_that_may_be_tried_again_has_no_row(path: Path) -> None:
    """Be it that it waits for its next round, or that it fails while the run is closed."""
    gate, failing = asyncio.Event(), asyncio.Event()

    async def call(item: int) -> int:
        if item == 1:
            await gate.wait()
            failing.set()  # whoever waits for it goes on before this task has ended
        if item < 2:
            raise errors.ConnectionFailedError("bad")
        return item

    async with aclosing(bulk.run(call, range(10), concurrency=2, journal=path, job=JOB)) as run:
        assert (await anext(run)).item == 2
        gate.set()
        await failing.wait()

    assert {0, 1}.isdisjoint(row["item"] for row in rows(path))


def test_a_fifth_of_the_replies_may_be_cut_and_each_item_is_fetched() -> None:
    chance, retry = itertools.count(), RetryPolicy(attempts=3, backoff=0.1)
    transport = slow(lambda request: cut(request) if next(chance) % 5 == 0 else done(request))

    results = ask(transport, orders, 610, concurrency=10, retry=retry)

    assert [result.error for result in results] == [None] * 610
    assert max(result.attempts for result in results) <= 6


@virtual_time.in_virtual_time
async def test_retries_of_a_run_leave_the_budget_of_its_session_alone() -> None:
    asked: set[str] = set()

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path in asked:
            return done(request)
        asked.add(request.url.path)
        return cut(request)

    budget = RetryBudget(reserve=1, share=0, per_second=0)
    async with session(slow(answer), retry=RetryPolicy(), retry_budget=budget) as gateway:
        run = bulk.run(lambda item: orders(gateway, item), range(20))
        assert [result.attempts async for result in run] == [2] * 20
        assert await orders(gateway, 20) == {}


def per_second(limit: int) -> Kind:
    taken: Counter[int] = Counter()

    def answer(_: httpx.Request) -> httpx.Response:
        second = int(virtual_time.now())
        taken[second] += 1
        status = 429 if taken[second] > limit else 200
        return httpx.Response(status, headers={"Retry-After": "1"}, json=[])

    return answer


@pytest.mark.parametrize("retry", [None, RetryPolicy()])
@pytest.mark.parametrize("concurrency", ["adaptive", 1, 20])
def test_a_rate_limit_fails_no_item(concurrency: Any, retry: RetryPolicy | None) -> None:
    transport = Answering(per_second(20))

    results = ask(transport, list_countries, 240, concurrency=concurrency, retry=retry)

    assert [result.error for result in results] == [None] * 240
    assert sum(result.attempts for result in results) == len(transport.asked)


def refusing(times: int, retry_after: str | None = None) -> Kind:
    left = iter(range(times))
    refusal = httpx.Response(429, headers={"Retry-After": retry_after} if retry_after else {})
    return lambda _: httpx.Response(200, json=[]) if next(left, None) is None else refusal


@pytest.mark.parametrize(
    ("retry_after", "least"), [("7", [7] * 5), (None, [0.5, 1, 2, 4, 8, 16, 30, 30, 30, 30])]
)
def test_waits_are_those_asked_for_or_double(retry_after: str | None, least: list[float]) -> None:
    transport = Answering(refusing(len(least), retry_after))

    (result,) = ask(transport, list_countries, 1)

    times = [time for _, time in transport.asked]
    waits = [later - sooner for sooner, later in itertools.pairwise(times)]
    assert (result.error, result.attempts) == (None, len(least) + 1)
    assert all(asked <= wait <= asked + 1 for asked, wait in zip(least, waits, strict=True))


def test_refused_items_do_not_come_back_together() -> None:
    transport = Answering(refusing(20, "3"))

    ask(transport, list_countries, 20, concurrency=20)

    back = [time for _, time in transport.asked if time > 0]
    assert len(set(back)) == 20
    assert min(back) >= 3


@pytest.mark.parametrize(
    ("limit", "requests", "kind"),
    [
        ({"patience": 0}, 1, errors.RateLimitedError),
        ({"patience": 11.9}, 3, errors.RateLimitedError),
        ({"deadline": 10.0}, 3, errors.DeadlineExceededError),
    ],
)
def test_the_patience_or_the_deadline_ends_the_waiting(
    limit: dict[str, Any], requests: int, kind: type[errors.GatewayError]
) -> None:
    transport = Answering(refusing(10**6, "4"))

    (result,) = ask(transport, list_countries, 1, **limit)

    assert isinstance(result.error, kind)
    assert (result.error.outcome, len(result.error.attempts)) == (Outcome.REFUSED, 1)
    assert len(transport.asked) == result.attempts == requests


WRITE, READ = "create_customer", "list_countries"


@pytest.mark.parametrize(
    ("calls", "statuses", "fails"),
    [
        ([WRITE], [429, 429, 429, 200], False),  # a 429 proves that no customer was created
        ([WRITE, READ], [200, 429], True),  # the write would be repeated
        ([READ, READ], [200, 429, 200, 200], False),
    ],
)
def test_an_item_is_begun_again_if_this_repeats_no_write(
    calls: list[str], statuses: list[int], fails: bool
) -> None:
    replies = iter(statuses)

    async def call(gateway: GatewaySession, _: int) -> None:
        for name in calls:
            await CALLS[name](gateway)

    transport = Answering(lambda _: httpx.Response(next(replies), json=[]))
    (result,) = ask(transport, call, 1)

    assert isinstance(result.error, errors.RateLimitedError) is fails
    assert len(transport.asked) == result.attempts == len(statuses)


def test_a_wait_that_the_ledger_cannot_note_ends_the_run() -> None:
    ledger = Memory()
    failure = errors.JournalError("full")
    ledger.write = AsyncMock(side_effect=[None, failure])  # type: ignore[method-assign]

    with pytest.raises(errors.JournalError, match="full"):
        ask(refusing(1), lambda gateway, _: CALLS[WRITE](gateway), 1, journal=ledger)


@pytest.mark.parametrize(
    ("error", "operation", "calls"),
    [
        (errors.RateLimitedError("429", status=429), None, 3),
        (errors.RateLimitedError("429", status=429), "create_customer", 1),  # was not observed
        (errors.SessionStateError("closed"), None, 1),  # may pass with another session only
    ],
)
def test_an_error_that_the_function_raises_itself(
    error: errors.GatewayError, operation: str | None, calls: int
) -> None:
    """It asks to call again later, if that can help; else it is a result."""
    vars(error).update(operation=operation, retry_after=2.0)
    error.advice = Advice.REPEAT
    times: list[float] = []

    async def call(_: int) -> None:
        times.append(virtual_time.now())
        if len(times) < 3:
            raise error

    (result,) = results_of(call, [1])

    assert (result.error is error) is (calls == 1)
    assert len(times) == calls
    assert all(later - sooner >= 2 for sooner, later in itertools.pairwise(times))


@pytest.mark.parametrize("status", [429, 503])
def test_an_item_that_leaves_a_write_behind_is_not_begun_again(status: int) -> None:
    """The write has no permit of the rate limit when the read fails, and is sent later."""
    created, ledger = list[httpx.Request](), Memory()

    def answer(request: httpx.Request) -> httpx.Response:
        created.extend([request] * (is_write := "create" in request.url.path))
        return httpx.Response(200 if is_write else status, json={})

    async def main() -> None:
        async with session(answer, rate_limit=RateLimit(1, seconds=1)) as gateway:

            async def call(_: int) -> None:
                await asyncio.gather(*[CALLS[name](gateway) for name in (READ, WRITE)])

            run = bulk.run(call, [1], patience=60, journal=ledger)
            assert [result.item async for result in run] == [1]
            await asyncio.sleep(60)

    virtual_time.run(main())

    assert len(created) == 1
    (entry,) = ledger.entries.values()
    assert (entry.state, entry.failure and entry.failure.advice) == ("unknown", "check")
