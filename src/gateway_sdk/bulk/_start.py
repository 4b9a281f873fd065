"""Run one coroutine function over many items, with a bounded number of calls at once."""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sized,
)
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Final, Generic, Literal, TypedDict, Unpack

from gateway_sdk._call.events import check_observers
from gateway_sdk._checks import (
    check_names,
    check_seconds,
    check_switch,
    check_wait,
    checked,
    declared,
    is_async,
    shown,
)
from gateway_sdk._python import telling, with_added
from gateway_sdk.bulk._journal import SqliteLedger
from gateway_sdk.bulk._limit import Adaptive, Controller, FixedLimit
from gateway_sdk.bulk._runner import Reporter, Runner
from gateway_sdk.bulk.results import BulkResult, Item, Ledger, OnProgress, Results, Value
from gateway_sdk.errors import ConfigurationError, InvalidArgumentError
from gateway_sdk.observer import Observer, RunInfo

_LEDGER: Final = ("open", "has", "read", "write", "aclose")


def _check_function(name: str, function: object) -> object:
    if function is not None and (not callable(function) or is_async(function)):
        raise ConfigurationError("must be a plain function of one argument", setting=name)
    return function


def _check_patience(name: str, seconds: object) -> float | None:
    return None if seconds is None else check_wait(name, seconds)


def _check_journal(name: str, journal: object) -> object:
    if isinstance(journal, str | PathLike):
        return Path(journal)
    if journal is None or all(hasattr(journal, member) for member in _LEDGER):
        return journal
    raise ConfigurationError("must be the path of a file, or a Ledger", setting=name)


def _take_job(_: str, job: object) -> object:
    return job  # checked where there is a journal


def _limit_of(name: str, concurrency: object) -> FixedLimit:
    """Return the limit for the argument `concurrency` of `run`."""
    if concurrency == "adaptive":
        concurrency = Adaptive()
    if isinstance(concurrency, Adaptive):
        return Controller(concurrency.maximum, concurrency.start)
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigurationError(
            "must be a whole number of at least 1, 'adaptive', or an Adaptive", setting=name
        )
    return FixedLimit(concurrency)


class RunSettings(TypedDict, Generic[Item, Value], total=False):
    """The settings of a run."""

    concurrency: Annotated[int | Literal["adaptive"] | Adaptive, "adaptive", _limit_of]
    key: Annotated[Callable[[Item], object] | None, None, _check_function]
    subject: Annotated[Callable[[Item], object] | None, None, _check_function]
    ordered: Annotated[bool, False, check_switch]
    deadline: Annotated[float | None, None, check_seconds]
    patience: Annotated[float | None, 3600.0, _check_patience]
    on_progress: Annotated[OnProgress | None, None, _check_function]
    journal: Annotated[str | PathLike[str] | Ledger | None, None, _check_journal]
    job: Annotated[str | None, None, _take_job]
    retry_failed: Annotated[bool, False, check_switch]
    dump: Annotated[Callable[[Value], Any] | None, None, _check_function]
    load: Annotated[Callable[[Any], Value] | None, None, _check_function]
    observers: Annotated[Iterable[Observer], (), check_observers]


class FrontSettings(RunSettings[Item, Value], total=False):
    """The settings of a run of one operation."""

    headers: Mapping[str, str | None] | None


RUN: Final = declared(RunSettings)


@shown()
def run(
    call: Callable[[Item], Awaitable[Value]],
    items: Iterable[Item] | AsyncIterable[Item],
    **settings: Unpack[RunSettings[Item, Value]],
) -> AsyncGenerator[BulkResult[Item, Value], None]:
    """Call a coroutine function with each item and yield the results as they come.

    A failed call is a result too and does not affect the others. New items are taken only as fast
    as you take results, so memory does not depend on their number. Closing the iterator, or
    cancelling it, leaves nothing running: use `contextlib.aclosing` where you may leave the loop
    early.

    An item whose failure may pass (`error.advice` is REPEAT) is tried again up to twice, later in
    the run. If five different items fail so in a row, also such as must not be made twice (CHECK),
    or if a login is missing (LOG_IN), it is an outage: the run pauses, lets one item at a time try
    after growing pauses, and goes on when the gateway answers. So is a 429 or 503 whose Retry-After
    is longer than the session waits. The retries of a run are not taken from the budget of its
    session.

    Args:
        call: The function, called with each item. If it returns the `BulkResult` that the item has
            in another run, this is the result of its call. It makes its requests in its own
            task, or in tasks that it starts: the journal does not see those of other tasks.
        items: The items; a generator may be endless, and may be asynchronous. Each is an object of
            its own: one that is changed and yielded again changes for the calls before, too.
        concurrency: "adaptive" finds the number of calls at once that the gateway accepts, up to
            100; `Adaptive(maximum=...)` has another maximum; a number is fixed.
        key: Returns the key of an item, a JSON value. Items with the same key are fetched once,
            and each has the result. The results are kept until the end of the run. A journal
            belongs to one *key*: with another one all items are new.
        subject: Returns what an item asks about, such as (base, symbols). If the gateway does not
            know it, which is a `NotFoundError` of one of its items, those that come later have
            this error too, without a call: let an item of each subject come first.
        ordered: Yield results in the order of the items, not in the order in which calls end.
        deadline: Seconds for the whole run; None for no limit. Then calls in flight are ended, and
            each item without a result gets a `DeadlineExceededError`, whose `outcome` says whether
            anything was sent. Items without a length, such as those of a generator, are not read
            further, and the run ends with such an error.
        patience: Seconds for which the run waits during an outage, for a journal that another
            program has locked, and one item that the gateway refuses with 429 or asks to wait;
            None for no limit, 0 not to wait. It counts from the beginning of the outage, after the
            rounds that showed it. Then an outage ends the run with an `OutageError`, a lock with a
            `JournalError`, and the failure of the item is its result.
        on_progress: Called with a `Progress` before each result, and when an outage begins or
            ends; its first error is logged.
        journal: An SQLite file with a row for each item that has ended, written before the result
            is yielded. Items that are in it already are not fetched, but yielded from it, marked
            `from_journal`. Equal items are fetched once, also without *key*. A `Ledger` keeps the
            items elsewhere.
        job: The name of the work, such as "rates-2026-q1"; required with a file, which only the
            same job can continue. Name everything that matters and is not in the items.
        retry_failed: Fetch items of the file again whose failure may pass: their advice is REPEAT
            or LOG_IN; or they only read, and the reply was 401, 403, a redirect or unexpected; or
            they did nothing, for a wrong setting.
        dump: Converts a value to JSON for the journal; without it pydantic does.
        load: Converts the JSON in the journal to a value; without it the JSON is the value. This
            holds for new results too, so that a run that goes on gives what one run would.
        observers: Called for the run and its items. For the calls, the observers of their session
            are called: give the same ones there.

    Yields:
        One result per item.

    Raises:
        InvalidArgumentError: an argument is wrong (raised at once), or the key of an item is not a
            JSON value.
        OutageError: the gateway, or a login, was away for longer than *patience*.
        UnauthorizedError: the gateway refused an access token that cannot be renewed.
        LoginRequiredError: such a token has expired.
        ConfigurationError: a call has met a wrong setting of its session.
        DeadlineExceededError: the deadline passed before all items were read.
        JournalError: the journal belongs to another job, is in use, or cannot be written.
        Exception: *items*, *key* or *subject* raised an error; raised after the results of the
            calls in flight. All other errors are raised after the results of those calls in flight
            that must not be made twice.
    """
    if not callable(call):
        raise InvalidArgumentError("must be a coroutine function of one item", field="call")
    try:
        given = checked(RUN, check_names("run", settings, RUN))
    except ConfigurationError as error:
        raise InvalidArgumentError(error.problem, field=error.setting) from None
    total = len(items) if isinstance(items, Sized) else None
    runner = Runner(
        call=call,
        items=items,
        limit=given["concurrency"],
        key=given["key"],
        subject=given["subject"],
        ledger=_ledger_of(given),
        dump=given["dump"],
        load=given["load"],
        reporter=Reporter(
            None if (it := given["on_progress"]) is None else telling(it),
            with_added(given["observers"]),
            RunInfo(total),
        ),
        ordered=given["ordered"],
        deadline=given["deadline"],
        patience=given["patience"],
    )
    return Results(runner.results())


def _ledger_of(given: Mapping[str, Any]) -> Ledger | None:
    ledger: Ledger | Path | None = given["journal"]
    job, retry_failed = given["job"], given["retry_failed"]
    if isinstance(ledger, Path):
        if not isinstance(job, str) or not job.strip() or not job.isprintable():
            problem = "must name the work on the items of the journal, such as 'rates-2026-q1'"
            raise InvalidArgumentError(problem, field="job")
        return SqliteLedger(ledger, job, retry_failed=retry_failed, patience=given["patience"])
    for name in ("job", "retry_failed"):
        if given[name] not in (None, False):
            raise InvalidArgumentError("goes with a journal that is a file", field=name)
    for name in ("dump", "load"):
        if ledger is None and given[name]:
            raise InvalidArgumentError("goes with journal=", field=name)
    return ledger
