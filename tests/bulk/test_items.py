"""The sources of items, equal items, and the order of results."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import SecretStr

from gateway_sdk import GatewayError, InvalidArgumentError, JournalError, NotFoundError, bulk
from tests.support import virtual_time


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def numbers(count: int) -> AsyncIterator[int]:
    for number in range(count):
        await asyncio.sleep(0)
        yield number


async def keep_values(results: AsyncIterator[bulk.BulkResult[Any, Any]], seen: list[Any]) -> None:
    """Append the values of results; what comes before an error counts."""
    async for result in results:
        seen.append(result.value)  # noqa: PERF401 - see above


@pytest.mark.parametrize("ordered", [False, True])
async def test_an_asynchronous_iterable_is_read_to_its_end(ordered: bool) -> None:
    """Every item that it yields has one result."""
    results = [
        result async for result in bulk.run(double, numbers(30), concurrency=4, ordered=ordered)
    ]

    assert sorted(result.value for result in results) == [2 * number for number in range(30)]


async def test_an_asynchronous_iterable_is_not_read_ahead() -> None:
    """The next item is requested only when a place is free."""
    given_out = 0

    async def endless() -> AsyncIterator[int]:
        nonlocal given_out
        while True:
            given_out += 1
            yield given_out

    async with aclosing(bulk.run(double, endless(), concurrency=3)) as results:
        async for result in results:
            if result.item == 20:
                break

    assert given_out < 20 + 2 * 3


@pytest.mark.parametrize("concurrency", [1, 20])
async def test_an_asynchronous_iterable_is_closed_when_the_loop_is_left(concurrency: int) -> None:
    """Its own clean-up runs before the run has ended, in the task that read it.

    With one call at once it has not been asked for more; with twenty it is waiting itself.
    """
    tasks: list[Any] = []

    async def held() -> AsyncIterator[int]:
        try:
            async with asyncio.timeout(60):
                tasks.append(asyncio.current_task())
                yield 1
                yield 2
                await asyncio.Event().wait()
        finally:
            tasks.append(asyncio.current_task())

    async with aclosing(bulk.run(double, held(), concurrency=concurrency)) as results:
        assert (await anext(results)).item == 1

    assert len(set(tasks)) == 1 < len(tasks)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_generator_of_an_iterable_object_is_closed_too() -> None:
    """An object may have a generator as its `__aiter__`, whose clean-up may take a while."""
    closed: list[str] = []

    class Rows:
        """Reads rows of something that must be closed."""

        async def __aiter__(self) -> AsyncIterator[int]:
            try:
                for row in range(9):
                    yield row
            finally:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                closed.append("rows")

    async with aclosing(bulk.run(double, Rows(), concurrency=1)) as results:
        assert (await anext(results)).item == 0

    assert closed == ["rows"]


async def test_an_iterable_that_is_no_generator_is_read_too() -> None:
    """An object with `__aiter__` and `__anext__` has nothing to close."""

    class Countdown:
        left = 3

        def __aiter__(self) -> "Countdown":
            return self

        async def __anext__(self) -> int:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return self.left

    assert [result.item async for result in bulk.run(double, Countdown())] == [2, 1, 0]


async def test_a_run_that_ends_before_reading_ends_cleanly(tmp_path: Path) -> None:
    """No item was requested."""
    with pytest.raises(JournalError):
        await anext(bulk.run(double, numbers(3), journal=tmp_path, job="test"))


async def test_an_asynchronous_iterable_that_fails_loses_no_result() -> None:
    """The results of its items are yielded before its error is raised."""

    async def items() -> AsyncIterator[int]:
        yield 1
        yield 2
        raise LookupError("no more")

    seen: list[int] = []

    with pytest.raises(LookupError, match="no more"):
        await keep_values(bulk.run(double, items()), seen)

    assert seen == [2, 4]


async def test_an_asynchronous_iterable_that_is_cancelled_from_within_is_an_error() -> None:
    """What it waited for was cancelled by others: the run must not look complete."""

    async def items() -> AsyncIterator[int]:
        yield 1
        other: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        other.cancel()
        yield await other

    seen: list[int] = []

    with pytest.raises(GatewayError, match="items was cancelled from within"):
        await keep_values(bulk.run(double, items()), seen)

    assert seen == [2]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"items": "USD"}, "items is a single string"),
        ({"items": 7}, "items must be an iterable"),
        ({"call": None}, "call must be"),
        ({"key": "id"}, "key must be"),
        ({"on_progress": 1}, "on_progress must be"),
        ({"on_progress": double}, "on_progress must be a plain function"),
        ({"ordered": 1}, "ordered must be"),
        ({"deadline": 0}, "deadline must be"),
        ({"deadline": "1"}, "deadline must be"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"journal": 7, "job": "test"}, "journal must be"),
        ({"journal": "a\0b", "job": "test"}, "no file can have"),
        ({"journal": "\ud800", "job": "test"}, "no file can have"),
    ],
)
def test_a_wrong_argument_is_refused_at_once(arguments: dict[str, Any], named: str) -> None:
    """The error names the argument, before an item is taken."""
    with pytest.raises(InvalidArgumentError, match=named):
        bulk.run(**{"call": double, "items": [1], **arguments})


@given(
    items=st.lists(st.integers(0, 5), max_size=40),
    concurrency=st.integers(1, 6),
    ordered=st.booleans(),
)
def test_equal_keys_are_fetched_once_and_each_item_has_its_result(
    items: list[int], concurrency: int, ordered: bool
) -> None:
    """At any times, there is one call per key and one result per item."""
    fetched: list[int] = []

    async def call(item: tuple[int, int]) -> int:
        fetched.append(item[1])
        await asyncio.sleep(item[1] % 3)
        if item[1] == 5:
            raise NotFoundError("no such thing", status=404)
        return 10 * item[1]

    async def main() -> list[Any]:
        run = bulk.run(
            call,
            enumerate(items),
            concurrency=concurrency,
            key=lambda item: item[1],
            ordered=ordered,
        )
        return [result async for result in run]

    results = virtual_time.run(main())

    assert sorted(fetched) == sorted(set(items))
    assert sorted(result.item for result in results) == list(enumerate(items))
    for result in results:
        assert (result.error is not None) == (result.item[1] == 5)
        assert result.error or result.value == 10 * result.item[1]
    if ordered:
        assert [result.item for result in results] == list(enumerate(items))


async def test_without_a_key_no_two_items_are_equal() -> None:
    """An item that is given twice is called twice."""
    results = [result.value async for result in bulk.run(double, [1, 1, 1])]

    assert results == [2, 2, 2]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        (("EUR", date(2026, 1, 1)), ["EUR", "2026-01-01"], True),
        (1, "1", False),
        (1, True, False),
        ("ä", "a", False),
        (None, "null", False),
    ],
)
async def test_keys_are_equal_if_their_json_is(one: object, other: object, equal: bool) -> None:
    """The order of names and the kind of sequence do not matter; the types of values do."""
    called: list[object] = []

    async def call(item: object) -> None:
        called.append(item)

    async for _ in bulk.run(call, [one, other], key=lambda item: item, concurrency=1):
        pass

    assert len(called) == (1 if equal else 2)


@pytest.mark.parametrize(
    ("item", "why"),
    [(object(), "no JSON value"), (SecretStr("one"), "a secret")],
)
async def test_an_invalid_key_ends_the_run(item: object, why: str) -> None:
    """Results of calls in flight are yielded; the error gives the way out and shows no item."""
    seen: list[object] = []

    async def call(item: object) -> object:
        return item

    with pytest.raises(InvalidArgumentError, match=why) as caught:
        await keep_values(bulk.run(call, ["first", item, "last"], key=lambda item: item), seen)

    assert seen == ["first"]
    assert "give key=" in str(caught.value)
    assert "one" not in str(caught.value).split()


async def test_results_can_come_in_the_order_of_the_items() -> None:
    """A slow first call delays the results after it, but not their calls."""
    door = asyncio.Event()
    ended: list[int] = []

    async def call(number: int) -> int:
        if number == 0:
            await door.wait()
        ended.append(number)
        if number == 9:
            door.set()
        return number

    run = bulk.run(call, range(20), concurrency=2, ordered=True)

    assert [result.value async for result in run] == list(range(20))
    assert ended.index(0) >= 9


async def test_results_behind_a_slow_one_do_not_pile_up_without_bound() -> None:
    """With `ordered`, the number of items taken ahead is limited by the concurrency."""
    taken = 0
    quiet = asyncio.Event()

    def items() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    async def call(number: int) -> None:
        if number == 1:
            await quiet.wait()
        elif number == 8 * 2:
            asyncio.get_running_loop().call_later(0, quiet.set)

    async with aclosing(bulk.run(call, items(), concurrency=2, ordered=True)) as results:
        await anext(results)

    assert taken == 8 * 2


async def test_known_results_let_other_tasks_run() -> None:
    """A long row of equal items does not block the event loop."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async for _ in bulk.run(double, [1] * 1000, key=lambda item: item, concurrency=500):
        pass
    counting.cancel()

    assert turns >= 10
