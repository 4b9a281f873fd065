"""Run one coroutine function over many items: bounded, back-pressured, nothing lost."""

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Sized

from gateway_sdk._config import check_seconds, check_switch
from gateway_sdk.bulk.engine import Engine
from gateway_sdk.bulk.ledger import Ledger, Memory
from gateway_sdk.bulk.limit import Fixed, Limit
from gateway_sdk.bulk.progress import Meter, OnProgress
from gateway_sdk.bulk.result import BulkResult, Item, Value
from gateway_sdk.bulk.source import Source, make_source
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError

__all__ = ["BulkResult", "run"]


def run(
    call: Callable[[Item], Awaitable[Value]],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    concurrency: int = 20,
    key: Callable[[Item], object] | None = None,
    ordered: bool = False,
    deadline: float | None = None,
    on_progress: OnProgress | None = None,
) -> AsyncGenerator[BulkResult[Item, Value], None]:
    """Call a coroutine function with each item and yield the results as they come.

    One failure loses nothing of the others: it is a result too. Items are taken from the iterable
    only as fast as results are taken from here, so memory does not depend on how many there are.
    Closing the iterator early, or cancelling it, leaves nothing running: use
    `contextlib.aclosing` where the loop may be left early.

    Args:
        call: What is called with each item.
        items: May be a generator without end, and asynchronous.
        concurrency: Calls under way at once.
        key: Items with the same key are fetched once, and each has its result: a JSON value. The
            results are kept to the end of the run.
        ordered: Yield in the order of the items, not in that in which calls end.
        deadline: Seconds for the whole run; None for no limit. Then calls under way are ended,
            and every item left has a result with a `DeadlineExceededError`, whose `outcome` tells
            whether anything was sent. From an asynchronous iterable no more items are taken.
        on_progress: Called with a `Progress` before each result; what it raises is logged.

    Yields:
        One result per item.

    Raises:
        InvalidArgumentError: an argument is wrong, at once; or the key of an item is no JSON value.
        Exception: taking an item from *items*, or its key, failed; raised when the calls under
            way have ended and their results were taken.
    """
    if not callable(call):
        raise InvalidArgumentError("call must be a coroutine function of one item")
    if key is not None and not callable(key):
        raise InvalidArgumentError("key must be a function of one item")
    if on_progress is not None and not callable(on_progress):
        raise InvalidArgumentError("on_progress must be a function of a Progress")
    try:
        check_switch("ordered", ordered)
        check_seconds("deadline", deadline)
    except ConfigurationError as error:
        raise InvalidArgumentError(*error.args) from None
    engine = Engine[Item, Value](
        call,
        limit=_limit(concurrency),
        ledger=Ledger() if key is None else Memory(key),
        ordered=ordered,
        deadline=deadline,
    )
    meter = Meter(on_progress, len(items) if isinstance(items, Sized) else None)
    return _counted(engine, make_source(items, engine.stir), meter)


async def _counted(
    engine: Engine[Item, Value], source: Source[Item], meter: Meter
) -> AsyncGenerator[BulkResult[Item, Value], None]:
    """Count each result, and pass it on."""
    results = engine.results(source)
    try:
        async for result in results:
            meter.count(result)
            yield result
    finally:
        await results.aclose()


def _limit(concurrency: object) -> Limit:
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidArgumentError("concurrency must be a whole number of at least 1")
    return Fixed(concurrency)
