"""Run one coroutine function over many items: bounded, back-pressured, nothing lost."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from gateway_sdk.errors import GatewayError, InvalidArgumentError

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
    error: GatewayError | None
    elapsed: float
    _value: Value | None = field(repr=False)

    @property
    def value(self) -> Value:
        """What the call returned.

        Raises:
            GatewayError: the call failed; the same as `error`.
        """
        if self.error is not None:
            raise self.error
        return cast("Value", self._value)


async def run(
    call: Callable[[Item], Awaitable[Value]], items: Iterable[Item], *, concurrency: int = 20
) -> AsyncGenerator[BulkResult[Item, Value], None]:
    """Call a coroutine function with each item and yield the results as they come.

    One failure loses nothing of the others. Items are taken from the iterable only as fast as
    results are taken from here, so memory does not depend on how many there are. Closing the
    iterator early, or cancelling it, leaves nothing running: use `contextlib.aclosing` where the
    loop may be left early.

    Args:
        call: What is called with each item.
        items: May be a generator without end.
        concurrency: Calls under way at once.

    Yields:
        One result per item, in the order in which the calls end.

    Raises:
        InvalidArgumentError: *concurrency* is less than 1.
    """
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidArgumentError("concurrency must be a whole number of at least 1")
    source = iter(items)
    running: set[asyncio.Task[BulkResult[Item, Value]]] = set()
    try:
        while _fill(running, call, source, concurrency):
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                running.discard(task)
                yield task.result()
    finally:
        await _cancel(running)


def _fill(
    running: set[asyncio.Task[BulkResult[Item, Value]]],
    call: Callable[[Item], Awaitable[Value]],
    source: Iterator[Item],
    concurrency: int,
) -> bool:
    """Start calls until enough are under way; tell whether any is."""
    while len(running) < concurrency:
        try:
            item = next(source)
        except StopIteration:
            break
        running.add(asyncio.create_task(_result_of(call, item)))
    return bool(running)


async def _result_of(
    call: Callable[[Item], Awaitable[Value]], item: Item
) -> BulkResult[Item, Value]:
    """Make one call; an error of this package is a result, any other one is a bug and goes up."""
    began = time.monotonic()
    try:
        value = await call(item)
    except GatewayError as error:
        return BulkResult(item=item, error=error, elapsed=time.monotonic() - began, _value=None)
    return BulkResult(item=item, error=None, elapsed=time.monotonic() - began, _value=value)


async def _cancel(running: set[asyncio.Task[BulkResult[Item, Value]]]) -> None:
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
