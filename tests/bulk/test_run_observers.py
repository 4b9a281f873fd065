"""Observers of a run: its start, each item, its end."""

import asyncio
from contextlib import aclosing
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import InvalidArgumentError, Observer, RunInfo, bulk

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


async def test_a_run_is_told_with_its_items() -> None:
    """What the hook of an item sets is visible in this item only."""
    book = Book()

    run = bulk.run(number_of, range(5), concurrency=2, ordered=True, observers=[book])
    assert book.events == []  # no call has begun
    values = [result.value async for result in run if result.error is None]

    assert values == [1, 2, 4, 5]
    assert book.events == [
        ("started", 5),
        *(("item", number) for number in range(1, 6)),
        ("finished", 5, 1, None),
    ]
    assert len(book.runs) == 1
    assert NUMBER.get() == 0


async def test_a_run_of_unknown_length_that_is_left_early() -> None:
    """The end is reported when all calls have ended, with the results that the caller took."""
    book = Book()

    async with aclosing(
        bulk.run(number_of, iter(range(100)), concurrency=1, observers=[book])
    ) as results:
        async for _ in results:
            break

    assert book.events[0] == ("started", None)
    assert book.events[-1] == ("finished", 1, 0, "GeneratorExit")


async def test_items_whose_result_is_known_are_not_begun(tmp_path: Path) -> None:
    """A result of the journal is counted, and so is that of an equal item."""
    first, second = Book(), Book()
    options: dict[str, Any] = {"journal": tmp_path / "journal", "job": "numbers", "concurrency": 1}

    async for _ in bulk.run(number_of, [0, 0, 1], observers=[first], **options):
        pass
    async for _ in bulk.run(number_of, [0, 1, 3], observers=[second], **options):
        pass

    assert first.events == [("started", 3), ("item", 1), ("item", 2), ("finished", 3, 0, None)]
    assert second.events == [("started", 3), ("item", 1), ("finished", 3, 0, None)]


async def test_an_error_of_the_items_is_told() -> None:
    """The error ends the run, and the hook gets it."""
    book = Book()

    def items() -> Any:
        yield 0
        raise LookupError

    with pytest.raises(LookupError):
        async for _ in bulk.run(number_of, items(), observers=[book]):
            pass

    assert book.events[-1] == ("finished", 1, 0, "LookupError")


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


@pytest.mark.parametrize("observers", [None, [Observer], [print]])
def test_invalid_observers_are_refused(observers: Any) -> None:
    """Other objects are refused at once, like other wrong arguments."""
    with pytest.raises(InvalidArgumentError, match=r"^observers must be"):
        bulk.run(number_of, [1], observers=observers)
