"""Run one coroutine function over many items: bounded, back-pressured, nothing lost."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from gateway_sdk.errors import InvalidArgumentError

Item = TypeVar("Item")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult(Generic[Item, Value]):
    """What became of one item.

    Attributes:
        item: As it was given.
        error: What the call raised; None if it succeeded.
        elapsed: Seconds that the call took.
    """

    item: Item
    error: Exception | None
    elapsed: float
    _value: Value | None = field(repr=False)

    @property
    def value(self) -> Value:
        """What the call returned.

        Raises:
            Exception: the call failed; the same as `error`.
        """
        if self.error is not None:
            raise self.error
        return cast("Value", self._value)


async def run(
    call: Callable[[Item], Awaitable[Value]], items: Iterable[Item], *, concurrency: int = 20
) -> AsyncGenerator[BulkResult[Item, Value], None]:
    """Call a coroutine function with each item and yield the results as they come.

    One failure loses nothing of the others: it is a result too. Items are taken from the iterable
    only as fast as results are taken from here, so memory does not depend on how many there are.
    Closing the iterator early, or cancelling it, leaves nothing running: use
    `contextlib.aclosing` where the loop may be left early.

    Args:
        call: What is called with each item.
        items: May be a generator without end.
        concurrency: Calls under way at once.

    Yields:
        One result per item, in the order in which the calls end.

    Raises:
        InvalidArgumentError: *concurrency* is less than 1.
        Exception: taking an item from *items* failed; raised when the calls under way have ended
            and their results were taken.
    """
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidArgumentError("concurrency must be a whole number of at least 1")
    source = _Source(items)
    running: set[asyncio.Task[BulkResult[Item, Value]]] = set()
    ended: asyncio.Queue[asyncio.Task[BulkResult[Item, Value]]] = asyncio.Queue()
    try:
        while True:
            while len(running) < concurrency and (item := source.next()):
                task = asyncio.create_task(_result_of(call, item[0]))
                task.add_done_callback(ended.put_nowait)
                running.add(task)
            if not running:
                break
            task = await ended.get()
            running.discard(task)
            yield task.result()
    finally:
        await _cancel(running)
    if source.error is not None:
        raise source.error


class _Source(Generic[Item]):
    """The items, until there are no more or the iterable fails."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._iterator = iter(items)
        self.error: Exception | None = None

    def next(self) -> tuple[Item] | None:
        """Return the next item in a tuple of its own, or None."""
        if self.error is not None:
            return None
        try:
            return (next(self._iterator),)
        except StopIteration:
            return None
        except Exception as error:  # noqa: BLE001 - raised when the calls under way have ended
            self.error = error
            return None


async def _result_of(
    call: Callable[[Item], Awaitable[Value]], item: Item
) -> BulkResult[Item, Value]:
    """Make one call; whatever it raises is its result, and loses nothing of the others."""
    began = time.monotonic()
    try:
        value = await call(item)
    except Exception as error:  # noqa: BLE001 - it may be anything: the call is the user's
        return BulkResult(item=item, error=error, elapsed=time.monotonic() - began, _value=None)
    return BulkResult(item=item, error=None, elapsed=time.monotonic() - began, _value=value)


async def _cancel(running: set[asyncio.Task[BulkResult[Item, Value]]]) -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
