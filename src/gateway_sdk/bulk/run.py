"""Run one coroutine function over many items: bounded, back-pressured, nothing lost."""

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Sized
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from gateway_sdk._config import check_seconds, check_switch, check_wait, is_async
from gateway_sdk.bulk._adaptive import Adaptive, Tuner
from gateway_sdk.bulk._dedup import Dedup, Memory
from gateway_sdk.bulk._journal.journal import Journal
from gateway_sdk.bulk._limit import Fixed, Limit
from gateway_sdk.bulk._runner import Runner
from gateway_sdk.bulk._source import Source, make_source
from gateway_sdk.bulk.results import BulkResult, Item, Meter, OnProgress, Value
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError

__all__ = ["BulkResult", "run"]


def run(
    call: Callable[[Item], Awaitable[Value]],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    concurrency: int | Literal["adaptive"] | Adaptive = "adaptive",
    key: Callable[[Item], object] | None = None,
    ordered: bool = False,
    deadline: float | None = None,
    patience: float | None = None,
    on_progress: OnProgress | None = None,
    journal: str | PathLike[str] | None = None,
    job: str | None = None,
    retry_failed: bool = False,
    repair: bool = False,
    dump: Callable[[Value], Any] | None = None,
    load: Callable[[Any], Value] | None = None,
) -> AsyncGenerator[BulkResult[Item, Value], None]:
    """Call a coroutine function with each item and yield the results as they come.

    One failure loses nothing of the others: it is a result too. Items are taken from the iterable
    only as fast as results are taken from here, so memory does not depend on how many there are.
    Closing the iterator early, or cancelling it, leaves nothing running: use
    `contextlib.aclosing` where the loop may be left early.

    Args:
        call: What is called with each item.
        items: May be a generator without end, and asynchronous.
        concurrency: "adaptive" finds out how many calls at once the gateway takes, up to 100;
            `Adaptive(maximum=...)` has another bound; a number is the number of calls at once.
        key: Items with the same key are fetched once, and each has its result: a JSON value. The
            results are kept to the end of the run.
        ordered: Yield in the order of the items, not in that in which calls end.
        deadline: Seconds for the whole run; None for no limit. Then calls under way are ended,
            and every item left has a result with a `DeadlineExceededError`, whose `outcome` tells
            whether anything was sent. From an asynchronous iterable no more items are taken.
        patience: Seconds that one item may wait after refusals with 429, beyond the retries of its
            session; then the 429 is its result. None waits until the item is taken or the
            deadline has passed, 0 does not wait. An item is tried again only if nothing that it
            changed may have been done.
        on_progress: Called with a `Progress` before each result; what it raises is logged.
        journal: A file of JSON lines, one per item that has ended, written before its result is
            yielded. With the file of an earlier run only what is not in it is fetched; the rest is
            yielded again, marked `from_journal`. Equal items are fetched once, also without *key*.
        job: Names what is done with the items, as "rates-2026-q1"; needed with a journal, which
            is only continued by the job that began it. Name all in it that is not in the items.
        retry_failed: Fetch again what failed in an earlier run, where that is safe to repeat.
        repair: Go on with a journal that has damaged lines: they are kept in a file beside it, and
            what they held is fetched again. What must not be made twice is not: where it may have
            been in a damaged line, the result is an error of outcome UNKNOWN.
        dump: Makes JSON of a value for the journal, in place of pydantic.
        load: Makes a value of the JSON in the journal, which else comes as it stands there.

    Yields:
        One result per item.

    Raises:
        InvalidArgumentError: an argument is wrong, at once; or the key of an item is no JSON value.
        JournalError: the journal is another job's, is in use, or cannot be written.
        Exception: taking an item from *items*, or its key, failed; raised when the calls under
            way have ended and their results were taken.
    """
    if not callable(call):
        raise InvalidArgumentError("call must be a coroutine function of one item")
    _check_functions(key=key, on_progress=on_progress, dump=dump, load=load)
    if is_async(on_progress):
        raise InvalidArgumentError("on_progress must be a plain function, not async")
    try:
        check_switch("ordered", ordered)
        check_switch("retry_failed", retry_failed)
        check_switch("repair", repair)
        check_seconds("deadline", deadline)
        patience = None if patience is None else check_wait("patience", patience)
    except ConfigurationError as error:
        raise InvalidArgumentError(*error.args) from None
    dedup: Dedup[Item, Value] = Dedup() if key is None else Memory(key)
    if journal is not None:
        dedup = Journal(
            _path(journal),
            _job(job),
            key=key,
            dump=dump,
            load=load,
            retry_failed=retry_failed,
            repair=repair,
        )
    elif job is not None or dump is not None or load is not None or retry_failed or repair:
        raise InvalidArgumentError("job, dump, load, retry_failed and repair go with journal=")
    runner = Runner[Item, Value](
        call,
        limit=_limit(concurrency),
        dedup=dedup,
        ordered=ordered,
        deadline=deadline,
        patience=patience,
    )
    meter = Meter(on_progress, len(items) if isinstance(items, Sized) else None)
    return _counted(runner, make_source(items, runner.wake), meter)


async def _counted(
    runner: Runner[Item, Value], source: Source[Item], meter: Meter
) -> AsyncGenerator[BulkResult[Item, Value], None]:
    """Count each result, and pass it on."""
    results = runner.results(source)
    try:
        async for result in results:
            meter.count(result)
            yield result
    finally:
        await results.aclose()


def _check_functions(**given: object) -> None:
    for name, function in given.items():
        if function is not None and not callable(function):
            raise InvalidArgumentError(f"{name} must be a function of one argument")


def _path(journal: object) -> Path:
    if not isinstance(journal, str | PathLike):
        raise InvalidArgumentError("journal must be the path of a file")
    return Path(journal)


def _job(job: object) -> str:
    if not isinstance(job, str) or not job.strip() or not job.isprintable():
        raise InvalidArgumentError(
            "a journal needs job=, a name for what is done with its items, such as 'rates-2026-q1'"
        )
    return job


def _limit(concurrency: object) -> Limit:
    if concurrency == "adaptive":
        return Tuner(Adaptive())
    if isinstance(concurrency, Adaptive):
        return Tuner(concurrency)
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidArgumentError(
            "concurrency must be a whole number of at least 1, 'adaptive', or an Adaptive"
        )
    return Fixed(concurrency)
