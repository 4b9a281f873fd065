"""Runs of any shape: each item has one result, nothing is begun too early, and nothing is left."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unittest.mock import AsyncMock

import pytest
from hypothesis import example, given, strategies as st

from gateway_sdk import Observer, Outcome, RunInfo, bulk, errors
from gateway_sdk.models import CreateRequest
from tests.bulk.runs import Memory, keep_values, same
from tests.support import virtual_time

Numbered = tuple[int, int]
"""The place of an item, and the number that decides what its call does."""

SECONDS = [1, 2, 3, 40, 1, 1]
"""What the call of each number takes; 4 and 5 fail."""

ERRORS: dict[int, Exception] = {4: ZeroDivisionError(), 5: errors.NotFoundError("4", status=404)}


@dataclass
class Shape:
    """What a run is made over, and what was seen of it."""

    numbers: list[int]
    source: Literal["list", "iterator", "generator", "iterable", "object"] = "list"
    concurrency: int = 2
    ordered: bool = False
    keeps: Literal["nothing", "results", "ledger"] = "nothing"
    left_after: int | None = None
    fails: bool = False  # the source, at its end
    deadline: float | None = None

    taken: int = 0
    under_way: int = 0
    most: int = 0
    began: list[Numbered] = field(default_factory=list)
    ended: list[Numbered] = field(default_factory=list)
    results: list[bulk.BulkResult[Numbered, int]] = field(default_factory=list)
    has_failed: bool = False
    is_late: bool = False  # the deadline ended it before all items were read
    told: list[bulk.Progress] = field(default_factory=list)
    readers: list[Any] = field(default_factory=list)  # the task of an asynchronous iterable, twice

    def _give(self) -> Iterator[Numbered]:
        for item in enumerate(self.numbers):
            self.taken += 1
            yield item
        if self.fails:
            raise LookupError("no more")

    async def _give_later(self) -> AsyncIterator[Numbered]:
        try:
            async with asyncio.timeout(10_000):  # which must be left in the task that entered it
                self.readers.append(asyncio.current_task())
                for item in self._give():
                    await asyncio.sleep(0)
                    yield item
        finally:
            await asyncio.sleep(0)
            self.readers.append(asyncio.current_task())

    def items(self) -> Any:
        kind: Any = type("Rows", (), {"__aiter__": lambda _: self._give_later()})
        sources: dict[str, Callable[[], Any]] = {
            "list": lambda: list(enumerate(self.numbers)),
            "iterator": self._give,
            "generator": self._give_later,
            "iterable": kind,
            "object": lambda: Stepping(self._give()),
        }
        return sources[self.source]()

    async def call(self, item: Numbered) -> int:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.began.append(item)
        try:
            await asyncio.sleep(SECONDS[item[1]])
            self.ended.append(item)
            if item[1] in ERRORS:
                raise ERRORS[item[1]]
        finally:
            self.under_way -= 1
        return 10 * item[1]

    def options(self, ledger: Memory) -> dict[str, Any]:
        kept = {"nothing": {}, "results": {"key": number_of}}
        of_ledger = {"journal": ledger, "dump": lambda value: [value], "load": sum}
        return kept.get(self.keeps, {"key": number_of, **of_ledger})

    @property
    def is_left(self) -> bool:
        return len(self.results) == self.left_after

    async def run(self, ledger: Memory) -> None:
        run = bulk.run(
            self.call,
            self.items(),
            concurrency=self.concurrency,
            ordered=self.ordered,
            deadline=self.deadline,
            on_progress=self.told.append,
            **self.options(ledger),
        )
        try:
            async with aclosing(run):
                async for result in run:
                    self.results.append(result)
                    ahead = self.taken - len(self.results)
                    is_plain = self.keeps == "nothing" and not self.ordered
                    assert ahead <= self.concurrency * (1 if is_plain else 8)
                    assert len(self.told) == len(self.results)
                    if self.is_left:
                        break
        except LookupError:
            self.has_failed = True
        except errors.DeadlineExceededError:
            self.is_late = True
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not ledger.is_open
        assert virtual_time.now() <= (self.deadline or 1e9)


class Stepping(AsyncIterator[Numbered]):
    """An asynchronous iterable that is no generator, so that there is nothing to close."""

    def __init__(self, items: Iterator[Numbered]) -> None:
        self._items = items

    async def __anext__(self) -> Numbered:
        for item in self._items:
            return item
        raise StopAsyncIteration


def number_of(item: Numbered) -> int:
    return item[1]


SHAPES = st.builds(
    Shape,
    numbers=st.lists(st.integers(0, 5), max_size=40),
    source=st.sampled_from(["list", "iterator", "generator", "iterable", "object"]),
    concurrency=st.integers(1, 6),
    ordered=st.booleans(),
    keeps=st.sampled_from(["nothing", "results", "ledger"]),
    left_after=st.none() | st.integers(1, 10),
    fails=st.booleans(),
    deadline=st.sampled_from([None, None, 2.5, 41.5]),
)


@given(SHAPES)
@example(Shape([3, *[0] * 30], ordered=True))
@example(Shape([0, 0, 0, 1, 2], concurrency=1, keeps="results"))
@example(Shape([0] * 9, source="generator", concurrency=1, left_after=1))
@example(Shape([0] * 40, source="iterator", deadline=2.5))
@example(Shape([0, 1, 2], source="object"))
@example(Shape([0] * 40, deadline=2.5))
@example(Shape([2, 2], concurrency=1, keeps="results", deadline=2.5))
def test_each_item_has_one_result(shape: Shape) -> None:
    """For any source, order, keys and errors; and what a ledger has is not fetched again."""
    count, ledger = len(shape.numbers), Memory()
    key = (lambda item: item) if shape.keeps == "nothing" else number_of

    virtual_time.run(shape.run(ledger))

    assert shape.under_way == 0
    assert len(shape.readers) in (0, 2)
    assert len(set(shape.readers)) == len(shape.readers) // 2
    assert len(set(map(key, shape.began))) == len(shape.began)
    assert shape.most <= shape.concurrency
    if shape.keeps == "nothing" and shape.left_after is None:
        assert shape.most == min(shape.concurrency, count)
    items, ended = [result.item for result in shape.results], list(map(key, shape.ended))
    is_cut = shape.deadline is not None and shape.source != "list"
    late = sum(isinstance(result.error, errors.DeadlineExceededError) for result in shape.results)
    if not shape.is_left and not is_cut:
        assert len(items) == count
        assert shape.has_failed is (shape.fails and shape.source != "list")
    elif is_cut and not (shape.is_left or shape.is_late or shape.has_failed):
        assert len(items) == count
    elif is_cut and shape.keeps == "nothing" and not shape.ordered:
        assert late <= shape.concurrency  # it is not read further
    assert len(set(items)) == len(items)
    if shape.ordered:
        assert items == list(enumerate(shape.numbers))[: len(items)]
    elif shape.keeps == "nothing":
        assert items[: len(items) - late] == shape.ended[: len(items) - late]
    for result in shape.results:
        if key(result.item) in ended:
            error = ERRORS.get(result.item[1])
            assert result.error is error or (error and result.from_journal)
            with pytest.raises((type(error), errors.GatewayError)) if error else nullcontext():
                assert result.value == 10 * result.item[1]
        else:
            assert isinstance(result.error, errors.DeadlineExceededError)
            is_unsent = "nothing was sent" in str(result.error)
            assert f"{shape.deadline} s" in str(result.error)
            assert result.error.outcome is (Outcome.NOT_SENT if is_unsent else Outcome.UNKNOWN)
            # A ledger keeps no call that was ended and may be repeated.
            assert is_unsent is (key(result.item) not in map(key, shape.began)) or (
                is_unsent and shape.keeps == "ledger" and result.item not in shape.began
            )
    assert [told.done for told in shape.told] == list(range(1, len(items) + 1))
    assert {told.total for told in shape.told} <= {count if shape.source == "list" else None}
    failed = sum(result.error is not None for result in shape.results)
    assert not shape.told or shape.told[-1].failed == failed
    if shape.keeps == "ledger" and not shape.is_left:
        again = Shape(shape.numbers, keeps="ledger")
        virtual_time.run(again.run(ledger))
        assert not {*map(number_of, again.ended)} & {*ended}
        assert all(one.from_journal for one in again.results if key(one.item) in ended)
        assert sorted(one.item for one in again.results) == list(enumerate(shape.numbers))


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def test_an_error_thrown_into_a_run_ends_it() -> None:
    results = bulk.run(double, range(5))
    await anext(results)

    with pytest.raises(KeyError):
        await results.athrow(KeyError("x"))

    assert [result async for result in results] == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_result_has_the_seconds_of_its_call() -> None:
    (result,) = [result async for result in bulk.run(lambda _: asyncio.sleep(0.05), [1])]

    assert 0.03 < result.elapsed < 30


async def test_slots_do_not_wait_for_the_consumer() -> None:
    call = AsyncMock()

    async with aclosing(bulk.run(call, range(10), concurrency=3)) as results:
        await anext(results)
        await anext(results)
        await asyncio.sleep(0)

    assert [begun.args for begun in call.call_args_list] == [(0,), (1,), (2,), (3,)]


class NoLedger:
    open = has = read = write = aclose = double


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"items": "USD"}, "items is a single string"),
    ({"items": CreateRequest(customer_name="Ada")}, "items is a single model"),
    ({"items": 7}, "items must be an iterable"),
    ({"call": None}, "call must be"),
    *(({"key": wrong}, "key must be a plain function") for wrong in ("id", double)),
    *(({"on_progress": wrong}, "on_progress must be a plain") for wrong in (1, double)),
    ({"ordered": 1}, "ordered must be"),
    ({"deadline": 0}, "deadline must be"),
    ({"deadline": "1"}, "deadline must be"),
    *(({"concurrency": wrong}, "concurrency must be") for wrong in (0, -1, 1.5, True, "4", "fast")),
    *(({"patience": wrong}, "patience must be") for wrong in (-1, True, "1", float("nan"))),
    *(({"observers": wrong}, "^observers must be") for wrong in (None, [Observer], [print])),
    ({"journal": 7, "job": "test"}, "journal must be"),
    ({"journal": NoLedger(), "job": "x"}, "goes with a journal that is a file"),
    ({"journal": NoLedger(), "retry_failed": True}, "goes with a journal that is a file"),
    *(({"journal": "x", **job}, "job must name") for job in ({}, {"job": " "}, {"job": "a\nb"})),
    *(({name: str}, "goes with journal=") for name in ("dump", "load")),
    ({"job": "x"}, "goes with a journal that is a file"),
    ({"retry_failed": True}, "goes with a journal that is a file"),
    ({"retry_failed": 1}, "retry_failed must be"),
    ({"dump": 1}, "dump must be"),
    ({"load": 1}, "load must be"),
]


@pytest.mark.parametrize(("arguments", "named"), WRONG)
def test_a_wrong_argument_is_refused_at_once(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=named) as caught:
        bulk.run(**{"call": double, "items": [1], **arguments})

    assert caught.value.field in {*arguments, "job"}


async def test_an_invalid_key_ends_the_run() -> None:
    seen: list[object] = []

    with pytest.raises(errors.InvalidArgumentError, match=r"no JSON value.*give key="):
        await keep_values(bulk.run(same, ["first", object(), 3], key=lambda item: item), seen)

    assert seen == ["first"]


async def test_known_results_let_other_tasks_run() -> None:
    turns = itertools.count()

    async def count() -> None:
        for _ in turns:
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    async for _ in bulk.run(double, [1] * 1000, key=str, concurrency=500):
        pass
    counting.cancel()

    assert next(turns) > 10


NUMBER: ContextVar[int] = ContextVar("the number of the item", default=0)


class Book(Observer):
    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.runs: set[RunInfo] = set()

    def run_started(self, run: RunInfo) -> None:
        self.runs.add(run)
        self.events.append(("started", run.total))

    def item_started(self, run: RunInfo, number: int) -> None:
        self.runs.add(run)
        self.events.append(("item", number))
        NUMBER.set(number)

    def run_finished(
        self, run: RunInfo, done: int, failed: int, error: BaseException | None, elapsed: float
    ) -> None:
        assert elapsed >= 0
        self.runs.add(run)
        self.events.append(("finished", done, failed, error and type(error).__name__))


async def numbered(item: int) -> int:
    await asyncio.sleep(0)
    if item % 3 == 2:
        raise ZeroDivisionError
    return NUMBER.get()


def failing() -> Any:
    yield 0
    raise LookupError


@pytest.mark.parametrize(
    ("items", "values", "events"),
    [
        # The end is told when all calls have ended, with the results that the caller took.
        (range(5), [1, 2, 4, 5], [("started", 5), *range(1, 6), ("finished", 5, 1, None)]),
        (iter(range(9)), [1], [("started", None), 1, 2, ("finished", 1, 0, "GeneratorExit")]),
        (failing(), [1], [("started", None), 1, ("finished", 1, 0, "LookupError")]),
        # An item whose result is known is not begun, and its result is counted.
        ([0, 0, 1], [1, 1, 2], [("started", 3), 1, 2, ("finished", 3, 0, None)]),
        ([10, 0], [0, 1], [("started", 2), 1, ("finished", 2, 0, None)]),
    ],
    ids=["all", "left", "failing", "equal", "in the journal"],
)
async def test_a_run_is_told_with_its_items(
    path: Path, items: Any, values: list[int], events: list[Any]
) -> None:
    """What the hook of an item sets is visible in this item only."""
    book, seen = Book(), list[int]()
    options: dict[str, Any] = {"journal": path, "job": "numbers", "concurrency": 1}
    async for _ in bulk.run(numbered, [10], **options):
        pass

    run = bulk.run(numbered, items, ordered=True, observers=[book], **options)
    assert book.events == []  # no call has begun
    with suppress(LookupError):
        async with aclosing(run) as results:
            async for result in results:
                if result.error is None:
                    seen.append(result.value)
                if "GeneratorExit" in events[-1]:
                    break

    expected = [("item", event) if isinstance(event, int) else event for event in events]
    begun = len(expected) - 1  # one more may begin before the run is left
    assert (book.events[:begun], book.events[-1]) == (expected[:begun], expected[-1])
    assert seen == values
    assert len(book.runs) == 1
    assert NUMBER.get() == 0


@pytest.mark.parametrize("hook", ["run_started", "item_started", "run_finished"])
@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError])
@pytest.mark.parametrize("order", [1, -1])
async def test_who_hears_of_the_start_of_a_run_hears_of_its_end(
    caplog: pytest.LogCaptureFixture, hook: str, error: type[BaseException], order: int
) -> None:
    """If a hook raises an Exception, and also what is none, as `pytest.fail` does."""

    def leave(self: Book, *given: Any) -> None:
        getattr(Book, hook)(self, *given)
        raise error

    book, leaving = Book(), type("Leaving", (Book,), {hook: leave})()
    goes_on = issubclass(error, Exception)
    with nullcontext() if goes_on else pytest.raises(error):
        async for result in bulk.run(numbered, [0], observers=[book, leaving][::order]):
            assert result.value == 1

    never = not goes_on and hook == "run_started" and order == -1  # it comes after who raised
    heard = [[event[0] for event in one.events if event[0] != "item"] for one in (book, leaving)]
    assert heard == [[] if never else ["started", "finished"], ["started", "finished"]]
    assert not goes_on or len(book.events) == len(leaving.events) == 3
    assert [record.getMessage() for record in caplog.records] == ["an observer failed"] * goes_on


async def test_a_progress_function_that_fails_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is called again, for it may work the next time; the results are what they are."""

    class Failing(list[bulk.Progress]):  # and false, as long as it is empty
        def __call__(self, progress: bulk.Progress) -> None:
            self.append(progress)
            raise ZeroDivisionError

    seen = Failing()
    results = [result.value async for result in bulk.run(numbered, [0, 0], on_progress=seen)]

    assert results == [0, 0]
    assert [progress.done for progress in seen] == [1, 2]
    assert [record.exc_info and record.exc_info[0] for record in caplog.records] == [
        ZeroDivisionError
    ]
