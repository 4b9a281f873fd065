"""Outages of runs whose items must not be sent twice: each try costs one item, not all of them."""

import asyncio
from collections import Counter
from typing import Any

import httpx
import pytest

from gateway_sdk import Advice, GatewaySession, Outcome, RateLimit, RetryPolicy, bulk, errors
from tests.bulk.runs import Answering, Memory, ask, created, session
from tests.bulk.test_outage import Kind, cut, unavailable
from tests.support import virtual_time
from tests.support.calls import CALLS


def create(gateway: GatewaySession, _: int) -> Any:
    return CALLS["create_customer"](gateway)


def unavailable_for_a_while(_: httpx.Request) -> httpx.Response:
    return httpx.Response(503, headers={"Retry-After": "2"})


def away(how: Kind, begin: float = 0.3, end: float = 30.3) -> Answering:
    def answer(request: httpx.Request) -> httpx.Response:
        return (how if begin <= virtual_time.now() < end else created)(request)

    return Answering(answer, seconds=0.1)


HOW = pytest.mark.parametrize("how", [unavailable, unavailable_for_a_while, cut])


@HOW
@pytest.mark.parametrize("concurrency", ["adaptive", 1, 20])
@pytest.mark.parametrize("retry", [None, RetryPolicy()])
def test_an_outage_costs_one_item_a_try(
    how: Kind, concurrency: Any, retry: RetryPolicy | None
) -> None:
    transport, told, ledger = away(how), list[bulk.Progress](), Memory()
    options: dict[str, Any] = {"concurrency": concurrency, "retry": retry, "journal": ledger}

    results = ask(transport, create, 1000, on_progress=told.append, **options)

    lost = [result for result in results if result.error]
    assert len(results) == len(transport.asked) == 1000  # none twice
    assert {(it.outcome, it.advice) for it in lost} == {(Outcome.UNKNOWN, Advice.CHECK)}
    # Those that were under way when it began, or the five that tell it; then 1 s, 2, 4, 8, 16.
    at_first = [moment for _, moment in transport.asked if 0.3 <= moment < 1.0]
    tries = [moment for _, moment in transport.asked if 1.0 <= moment < 30.3]
    assert len(lost) == len(at_first) + len(tries)
    assert len(at_first) <= 5 + (concurrency if concurrency != "adaptive" else 16)
    assert 3 <= len(tries) <= 6
    assert told[-1].outage is None
    states = Counter(entry.state for entry in ledger.entries.values())
    assert states == {"done": 1000 - len(lost), "unknown": len(lost)}


@pytest.mark.parametrize("has_journal", [False, True])
def test_a_gateway_that_does_not_come_back_ends_the_run(has_journal: bool) -> None:
    transport, seen = away(unavailable, end=1e9), list[bulk.Progress]()
    options: dict[str, Any] = {"concurrency": 4, "on_progress": seen.append}
    options |= {"journal": Memory()} if has_journal else {}

    with pytest.raises(errors.OutageError, match="no success for 100 s, since") as caught:
        ask(transport, create, 1000, patience=100, **options)

    assert caught.value.advice is Advice.REPEAT  # of the run: what was sent has its result
    assert len(transport.asked) <= seen[-1].done <= 30


@pytest.mark.parametrize("patience", [0, 5, 3600])
@pytest.mark.parametrize("has_journal", [False, True])
@pytest.mark.parametrize("seconds", [0.0, 20.0], ids=["at once", "slowly"])
def test_an_outage_that_holds_nothing_back_is_no_error(
    patience: float, has_journal: bool, seconds: float
) -> None:
    """And nobody waits for its end, however long the gateway asks to."""
    long = httpx.Response(503, headers={"Retry-After": "1000"})
    options: dict[str, Any] = {"concurrency": 5, "patience": patience}
    options |= {"journal": Memory()} if has_journal else {}

    async def main() -> tuple[list[Any], float]:
        async with session(Answering(lambda _: long)) as gateway:
            run = bulk.run(lambda item: create(gateway, item), range(5), **options)
            seen = list[Any]()
            async for result in run:
                seen.append(result.outcome)
                await asyncio.sleep(seconds)
            return seen, virtual_time.now()

    assert virtual_time.run(main()) == ([Outcome.UNKNOWN] * 5, 5 * seconds)


def test_the_deadline_is_the_error_of_an_item_that_waits_for_its_first_call() -> None:
    transport = away(unavailable, begin=0.0)

    results = ask(transport, create, 8, concurrency=5, deadline=0.5)

    found = {result.item: (type(result.error), result.outcome) for result in results}
    late = dict.fromkeys(range(5, 8), (errors.DeadlineExceededError, Outcome.NOT_SENT))
    assert found == {**dict.fromkeys(range(5), (errors.ServerError, Outcome.UNKNOWN)), **late}


@pytest.mark.parametrize("has_journal", [False, True])
def test_what_waits_for_its_turn_when_an_outage_begins_is_not_sent(has_journal: bool) -> None:
    transport = away(unavailable)
    options: dict[str, Any] = {"concurrency": 100}
    options |= {"journal": Memory()} if has_journal else {}

    async def main() -> list[bulk.BulkResult[int, Any]]:
        async with session(transport, rate_limit=RateLimit(10, seconds=1)) as gateway:
            run = bulk.run(lambda item: create(gateway, item), range(150), **options)
            return [result async for result in run]

    results = virtual_time.run(main())

    assert len(results) == len(transport.asked) == 150
    assert sum(result.error is not None for result in results) <= 15


@pytest.mark.parametrize("how", [unavailable, cut])
def test_a_read_that_fails_after_a_write_is_a_sign_too(how: Kind) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        is_write = request.method == "POST"
        return (created if is_write or virtual_time.now() > 20.0 else how)(request)

    async def write_and_read(gateway: GatewaySession, item: int) -> None:
        await create(gateway, item)
        await CALLS["trading_order_history"](gateway)

    results = ask(Answering(answer, seconds=0.1), write_and_read, 100, concurrency=5)

    lost = [result for result in results if result.error]
    assert {(it.outcome, it.advice) for it in lost} == {(Outcome.APPLIED, Advice.CHECK)}
    assert 5 <= len(lost) < 20


def test_an_item_is_not_left_half_done_for_an_outage() -> None:
    """Its second write is sent: it may be the one that succeeds."""

    def answer(request: httpx.Request) -> httpx.Response:
        is_first = "document" not in request.url.path
        return (created if is_first or virtual_time.now() > 20.0 else unavailable)(request)

    async def two_writes(gateway: GatewaySession, item: int) -> None:
        await asyncio.sleep(item % 10 / 20)
        await create(gateway, item)
        await CALLS["upload_document"](gateway)

    transport = Answering(answer, seconds=0.1)
    results = ask(transport, two_writes, 100, concurrency=10)

    assert len(results) == len(transport.asked) / 2 == 100


@pytest.mark.parametrize("status", [200, 302, 400, 501])
def test_errors_that_do_not_pass_are_no_outage(status: int) -> None:
    told = list[bulk.Progress]()
    page = httpx.Response(status, text="<html>")

    results = ask(Answering(lambda _: page), create, 20, on_progress=told.append)

    assert all(result.error for result in results)
    assert not any(progress.outage for progress in told)
