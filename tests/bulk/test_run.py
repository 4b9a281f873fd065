"""Bounded fan-out: every item has one result, and no task is left."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from gateway_sdk import GatewayError, InvalidArgumentError, bulk


async def double(number: int) -> int:
    """Return twice the number, or fail for odd ones."""
    await asyncio.sleep(0)
    if number % 2:
        raise GatewayError(f"odd: {number}")
    return 2 * number


async def test_every_item_has_one_result() -> None:
    """Successes and failures are yielded with their items."""
    results = [result async for result in bulk.run(double, range(50), concurrency=7)]

    assert sorted(result.item for result in results) == list(range(50))
    assert {result.item: result.value for result in results if result.error is None} == {
        number: 2 * number for number in range(0, 50, 2)
    }
    assert {str(result.error) for result in results if result.error} == {
        f"odd: {number}" for number in range(1, 50, 2)
    }
    assert all(result.elapsed >= 0 for result in results)
    failed = next(result for result in results if result.error)
    with pytest.raises(GatewayError) as caught:
        _ = failed.value
    assert caught.value is failed.error


async def test_no_items_no_results() -> None:
    """An empty iterable gives no results."""
    nothing: list[int] = []
    assert [result async for result in bulk.run(double, nothing)] == []


async def test_no_more_calls_than_allowed_are_in_flight() -> None:
    """Concurrency is a limit, and it is used."""
    under_way = most = 0

    async def call(_: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    async for _ in bulk.run(call, range(40), concurrency=4):
        pass

    assert most == 4


async def test_items_are_taken_only_as_results_are_taken() -> None:
    """An endless generator is possible: items are taken only up to the concurrency."""
    taken = 0

    def numbers() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield 2 * taken

    async with aclosing(bulk.run(double, numbers(), concurrency=3)) as results:
        async for result in results:
            if result.item == 20:
                break

    assert taken < 20


async def test_leaving_early_leaves_nothing_running() -> None:
    """Closing the iterator cancels the calls in flight and waits for their end."""
    ended: list[str] = []

    async def call(number: int) -> None:
        try:
            await (asyncio.sleep(0) if number == 0 else asyncio.Event().wait())
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with aclosing(bulk.run(call, range(5), concurrency=5)) as results:
        async for _ in results:
            break

    assert ended == ["cancelled"] * 4
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_error_thrown_into_a_run_ends_it() -> None:
    """As into any asynchronous generator."""
    results = bulk.run(double, range(5))
    await anext(results)

    with pytest.raises(KeyError):
        await results.athrow(KeyError("x"))

    assert [result async for result in results] == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_the_consumer_leaves_nothing_running() -> None:
    """The calls in flight end with the task that waits for them."""
    started = asyncio.Event()

    async def call(_: int) -> None:
        started.set()
        await asyncio.Event().wait()

    async def consume() -> None:
        async with aclosing(bulk.run(call, range(5))) as results:
            async for _ in results:
                pass

    task = asyncio.create_task(consume())
    await started.wait()
    task.cancel()
    await asyncio.wait([task])

    assert task.cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_error_of_any_kind_is_a_result() -> None:
    """Even a bug in the call does not lose the results of other items."""

    async def call(number: int) -> int:
        if number == 3:
            raise ZeroDivisionError
        return number

    results = {result.item: result async for result in bulk.run(call, range(6), concurrency=2)}

    assert isinstance(results.pop(3).error, ZeroDivisionError)
    assert [result.value for result in results.values()] == [0, 1, 2, 4, 5]


async def test_an_iterable_that_fails_loses_no_result() -> None:
    """The calls in flight end and are yielded before the error of the iterable is raised."""

    def items() -> Iterator[int]:
        yield from (0, 2, 4)
        raise LookupError("no more")

    results = bulk.run(double, items(), concurrency=10)

    assert [(await anext(results)).item for _ in range(3)] == [0, 2, 4]
    with pytest.raises(LookupError, match="no more"):
        await anext(results)


async def test_results_come_in_the_order_in_which_calls_end() -> None:
    """The quickest call is the first result."""
    doors = [asyncio.Event() for _ in range(4)]

    async def call(number: int) -> int:
        await doors[number].wait()
        return number

    order: list[int] = []
    doors[2].set()
    async for result in bulk.run(call, range(4)):
        order.append(result.item)
        for door in ({2: [3], 3: [0, 1]}).get(result.item, []):
            doors[door].set()

    assert order == [2, 3, 0, 1]


async def test_slots_do_not_wait_for_the_consumer() -> None:
    """When one result is taken, the next call starts, even if other results wait."""
    started: list[int] = []

    async def call(number: int) -> None:
        started.append(number)

    async with aclosing(bulk.run(call, range(10), concurrency=3)) as results:
        await anext(results)
        await anext(results)
        await asyncio.sleep(0)

    assert started == [0, 1, 2, 3]


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, True, "4"])
async def test_a_concurrency_below_one_is_refused(concurrency: Any) -> None:
    """The error names the argument."""
    with pytest.raises(InvalidArgumentError, match="concurrency"):
        await anext(bulk.run(double, [1], concurrency=concurrency))
