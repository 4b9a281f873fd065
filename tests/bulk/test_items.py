"""The sources of items, equal items, and the order of results."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from gateway_sdk import GatewayError, InvalidArgumentError, JournalError, Observer, bulk


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


async def test_a_run_that_ends_before_reading_ends_cleanly(tmp_path: Path) -> None:
    """No item was requested."""
    with pytest.raises(JournalError):
        await anext(bulk.run(double, numbers(3), journal=tmp_path, job="test"))


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


class NoLedger:
    """A ledger of the user's, as far as its arguments are checked."""

    open = has = read = write = aclose = double


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"items": "USD"}, "items is a single string"),
    ({"items": 7}, "items must be an iterable"),
    ({"call": None}, "call must be"),
    ({"key": "id"}, "key must be"),
    ({"on_progress": 1}, "on_progress must be"),
    ({"on_progress": double}, "on_progress must be a plain function"),
    ({"ordered": 1}, "ordered must be"),
    ({"deadline": 0}, "deadline must be"),
    ({"deadline": "1"}, "deadline must be"),
    *(({"concurrency": wrong}, "concurrency must be") for wrong in (0, -1, 1.5, True, "4", "fast")),
    *(({"patience": wrong}, "patience must be") for wrong in (-1, True, "1", float("nan"))),
    *(({"observers": wrong}, "^observers must be") for wrong in (None, [Observer], [print])),
    ({"journal": 7, "job": "test"}, "journal must be"),
    ({"journal": "a\0b", "job": "test"}, "no file can have"),
    *[({"journal": "\ud800", "job": "test"}, "no file can have")] * (os.name == "posix"),
    ({"journal": NoLedger(), "job": "x"}, "go with a journal that is a file"),
    ({"journal": NoLedger(), "retry_failed": True}, "go with a journal that is a file"),
    *(({"journal": "x", **job}, "needs job=") for job in ({}, {"job": " "}, {"job": "a\nb"})),
    *(({name: str}, "go with journal=") for name in ("dump", "load")),
    ({"job": "x"}, "go with journal="),
    ({"retry_failed": True}, "go with journal="),
    ({"retry_failed": 1}, "retry_failed must be"),
    ({"dump": 1}, "dump must be"),
    ({"load": 1}, "load must be"),
]


@pytest.mark.parametrize(("arguments", "named"), WRONG)
def test_a_wrong_argument_is_refused_at_once(arguments: dict[str, Any], named: str) -> None:
    """The error names the argument, before an item is taken."""
    with pytest.raises(InvalidArgumentError, match=named):
        bulk.run(**{"call": double, "items": [1], **arguments})


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
