"""Observers of a run: its start, each item, its end."""

import asyncio
from contextlib import aclosing, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import Observer, RunInfo, bulk

NUMBER: ContextVar[int] = ContextVar("the number of the item", default=0)


class Book(Observer):
    """Records the hooks of a run, and gives each item a number."""

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


async def number_of(item: int) -> int:
    """Return the number of the item as the observer set it; fail for every third."""
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
    tmp_path: Path, items: Any, values: list[int], events: list[Any]
) -> None:
    """What the hook of an item sets is visible in this item only."""
    book, seen = Book(), list[int]()
    options: dict[str, Any] = {"journal": tmp_path / "journal", "job": "numbers", "concurrency": 1}
    async for _ in bulk.run(number_of, [10], **options):
        pass

    run = bulk.run(number_of, items, ordered=True, observers=[book], **options)
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


async def test_an_observer_that_raises_does_not_change_a_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its errors are logged; the other observers are called."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    hooks = dict.fromkeys(["run_started", "item_started", "run_finished"], fail)
    failing, book = type("Failing", (Observer,), hooks)(), Book()

    async for result in bulk.run(number_of, [0], observers=[failing, book]):
        assert result.value == 1

    assert [event[0] for event in book.events] == ["started", "item", "finished"]
    assert [record.getMessage() for record in caplog.records] == ["an observer failed"] * 3


@pytest.mark.parametrize("hook", ["run_started", "run_finished"])
@pytest.mark.parametrize("order", [1, -1])
async def test_who_hears_of_the_start_of_a_run_hears_of_its_end(hook: str, order: int) -> None:
    """Also if a hook raises what is no Exception, as `pytest.fail` does."""
    heard: list[str] = []

    def leave(*_: object) -> None:
        heard.append(hook)
        raise asyncio.CancelledError

    book, leaving = Book(), type("Leaving", (Book,), {hook: leave})()
    with pytest.raises(asyncio.CancelledError):
        async for _ in bulk.run(number_of, [0], observers=[book, leaving][::order]):
            pass

    never = hook == "run_started" and order == -1  # it comes after the one that raised
    assert [event[0] for event in book.events if event[0] != "item"] == (
        [] if never else ["started", "finished"]
    )
    heard += [event[0] for event in leaving.events if event[0] != "item"]
    assert heard == [hook, "finished" if hook == "run_started" else "started"]
