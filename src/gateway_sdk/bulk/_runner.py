"""The loop that starts calls, waits for them and yields their results."""

import asyncio
import random
import time
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Generator,
    Iterable,
    Sequence,
)
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any, Final

from gateway_sdk._call.events import ITEMS
from gateway_sdk._call.retry import Bucket, retry_after
from gateway_sdk._python import Log, tell
from gateway_sdk._waiting import to_the_end
from gateway_sdk.bulk._item import Work, unsent
from gateway_sdk.bulk._ledger import Recorder, without_frames
from gateway_sdk.bulk._limit import FixedLimit
from gateway_sdk.bulk._outage import Outages, may_pass
from gateway_sdk.bulk._source import digest_of, make_source
from gateway_sdk.bulk.results import BulkResult, Ledger, OnProgress, Outage, Progress
from gateway_sdk.errors import (
    DeadlineExceededError,
    GatewayError,
    NotFoundError,
    OutageError,
    RateLimitedError,
)
from gateway_sdk.observer import Observer, RunInfo
from gateway_sdk.retry_policy import RetryBudget

_logger = Log("gateway_sdk.bulk")

AHEAD: Final = 8
"""Items taken but not yet yielded, per call in flight: they wait for a slow item, an equal one, or
the journal."""

_UNWRITTEN: Final = 4
"""Results that are being written, per further call that may be in flight: a batch of 40 costs a
third less."""

_NAME: Final = "bulk item"
_IS_OPEN: Final = attrgetter("is_open")

_RESULTS_IN_A_ROW: Final = 64
"""Results that are yielded in a row before other tasks may run."""

_FIRST_WAIT: Final = 0.5
"""Seconds, as in `RetryPolicy.backoff`, if a 429 does not say; each refusal doubles them."""

_LONGEST_WAIT: Final = 30.0
"""Seconds at which the doubling stops: an item is then tried twice a minute."""

_SPREAD: Final = 1.0
"""The largest random addition in seconds, so that items are not repeated together."""

_LATE: Final = 0.01
"""Seconds by which a timer may be early."""

_BUDGET: Final = RetryBudget(share=1.0)
"""The retries of a run, apart from those of its sessions: at most one more request per item. What
lacks a retry is tried later, and a gateway that is away is not asked by all items."""


@dataclass(eq=False)
class Reporter:
    """Tells observers and `on_progress` how far a run is."""

    on_progress: OnProgress | None
    observers: Sequence[Observer]
    run: RunInfo
    _items: int = 0
    _done: int = 0
    _failed: int = 0
    _from_journal: int = 0
    _outage: Outage | None = None

    @contextmanager
    def run_is_told(self) -> Generator[None]:
        began = time.monotonic()
        with ExitStack() as ends:
            for observer in self.observers:
                ends.push(partial(self._finished, observer, began))
                tell(observer.run_started, self.run)
            yield

    def item_started(self) -> None:
        self._items += 1
        for observer in self.observers:
            tell(observer.item_started, self.run, self._items)

    def count(self, result: BulkResult[Any, Any]) -> None:
        self._done += 1
        self._failed += result.error is not None
        self._from_journal += result.from_journal
        self._tell()

    def outage(self, outage: Outage | None) -> None:
        """Report that an outage began, or ended."""
        self._outage = outage
        self._tell()

    def _tell(self) -> None:
        if self.on_progress is not None:
            counts = self._done, self._failed, self._from_journal
            progress = Progress(*counts, self.run.total, self._outage)
            self.on_progress(progress)

    def _finished(
        self, observer: Observer, began: float, _: object, error: BaseException | None, __: object
    ) -> None:
        elapsed = time.monotonic() - began
        tell(observer.run_finished, self.run, self._done, self._failed, error, elapsed)


@dataclass(kw_only=True, eq=False)
class Runner:
    call: Callable[[Any], Awaitable[Any]]
    items: Iterable[Any] | AsyncIterable[Any]
    limit: FixedLimit
    key: Callable[[Any], object] | None
    subject: Callable[[Any], object] | None
    ledger: Ledger | None
    dump: Callable[[Any], Any] | None
    load: Callable[[Any], Any] | None
    reporter: Reporter
    ordered: bool
    deadline: float | None
    patience: float | None

    def __post_init__(self) -> None:
        self.budget = Bucket(_BUDGET)
        self.recorder = Recorder(self.ledger, self.fail)
        self._woken = asyncio.Event()
        self.wake = self._woken.set
        self._source = make_source(self.items, self.wake)
        self._late = f"the deadline of {self.deadline or 0:g} s for the whole run passed"
        self._has_expired = False
        self.is_closing = False
        self._error: BaseException | None = None  # of the run
        self.outages = Outages(self.patience, self.reporter.outage, self.wake, self.fail)
        self._later: deque[Work] = deque()  # failed, and are called again
        self._tasks: dict[asyncio.Task[Any], Work] = {}
        self._under_way: set[Work] = set()  # are called, or their results are written
        self._recalled: set[Work] = set()  # are read from the ledger
        self._equal: dict[bytes, list[Work]] = {}  # without a result; the first one is called
        self._unknown: dict[object, NotFoundError] = {}  # by subjects
        self._results: dict[bytes | None, BulkResult[Any, Any]] = {}  # of keys, without a ledger
        self._queue: deque[Work] = deque()
        self._held = 0  # items that were taken and not yet yielded
        self._streak = 0

    async def results(self) -> AsyncGenerator[BulkResult[Any, Any], None]:
        """Yield one result for each item; leave nothing running at the end or after an error."""
        with self.reporter.run_is_told():
            self.loop, timer = asyncio.get_running_loop(), None
            if self.deadline is not None:
                timer = self.loop.call_later(self.deadline, self._expire)
            try:
                if self.ledger is not None:
                    await self.ledger.open()
                while result := await self._next():
                    self.reporter.count(result)
                    yield result
            finally:
                if timer is not None:
                    timer.cancel()
                self.is_closing = True
                self._source.expire()  # at once: in the next turn it may have begun to end itself
                self._end_calls()
                await to_the_end(self._end())
            if self._source.error is not None:
                raise self._source.error

    async def _next(self) -> BulkResult[Any, Any] | None:
        self._streak += 1
        if self._streak % _RESULTS_IN_A_ROW == 0:
            await asyncio.sleep(0)
        while True:
            self._woken.clear()
            self._give_up_late()
            while self._error is None and self._start_one():
                pass
            # Results that are being written are yielded before the error of the run is raised.
            is_over = self._error is not None and not (self._under_way or self._recalled)
            while self._queue and (self._queue[0].result or is_over):
                if result := self._queue.popleft().result:
                    self._held -= 1
                    return result
            if self._error is not None and is_over and not self._was_in_vain():
                raise self._error
            if self._source.ended and not self._held:
                return None
            await self._woken.wait()
            self._streak = 0

    def _start_one(self) -> bool:
        """Start a new item, or else one that failed; False if there is none, or no room."""
        # In an outage an item is taken when all others have ended: there may be none.
        if not (self.outages.allows_call or not self._held) or not self._has_room():
            return False
        # Calls begin while results are written, but not many: a result may make the user leave.
        # One call at a time waits for that of the one before, if the user asked for one.
        unwritten = len(self._under_way) - len(self._tasks)
        if unwritten > _UNWRITTEN * (self.limit.maximum - 1):
            return False
        # In an outage, a new item may be better to try with than those that failed.
        held = self._held - (len(self._later) if self.outages.now else 0)
        if held < AHEAD * self.limit.size and (taken := self._source.next()):
            self._take(taken[0])
        elif self._later and (work := self._due()) and not self._source.is_asked:
            self._later.remove(work)
            self._begin(work)
        else:
            return False
        return True

    def _due(self) -> Work | None:
        now = self.loop.time()
        return next((work for work in self._later if work.due <= now), None)

    def _give_up_late(self) -> None:
        """Let failures be results if the gateway asks for longer waits than the run waits."""
        if not self._later or self.patience is None or self.outages.now or self._error:
            return
        ends = self.loop.time() + self.patience
        for work in [it for it in self._later if it.due > ends]:
            self._later.remove(work)
            self._under_way.add(work)
            work.keep(None)

    def _has_room(self) -> bool:
        now = self.loop.time()
        # In ordered runs, results may wait for the first one, up to a limit. After the deadline no
        # call begins.
        if self._has_expired or self.limit.has_room(now, 0 if self.ordered else len(self._queue)):
            return True
        if (wakes_at := self.limit.wakes_at(now)) is not None:
            self.loop.call_at(wakes_at, self.wake)
        return False

    def _take(self, item: Any) -> None:
        """Start an item, unless its result is known or an equal item is in flight."""
        try:
            digest = self._digest(item)
            work = Work(self, item, digest, self.subject and self.subject(item))
            unknown = self._unknown.get(work.subject)
        except Exception as error:  # noqa: BLE001 - an error of the key ends the run
            self._source.give_up(error)
            return
        self._held += 1
        if self.ordered:
            self._queue.append(work)
        if digest is not None:
            equal = self._equal.setdefault(digest, [])
            equal.append(work)
            if len(equal) > 1:
                return  # it waits for the first of them
        if digest in self._results:
            self.finish(work, replace(self._results[digest], item=item))
        elif digest is not None and self.ledger is not None and self.ledger.has(digest):
            self._recalled.add(work)
            work.recall()
        elif unknown is not None:
            work.error = unknown
            self._under_way.add(work)
            work.keep(None)
        elif self._has_expired:
            self._end_early(work)
        elif self.outages.allows_call:
            self._begin(work)
        else:
            self._later.append(work)

    def _digest(self, item: Any) -> bytes | None:
        if self.key is None and self.ledger is None:
            return None  # all items are different
        return digest_of(item if self.key is None else self.key(item))

    def _begin(self, work: Work) -> None:
        self._under_way.add(work)
        work.begin(is_probe=self.outages.take_probe())
        context = copy_context()
        context.run(ITEMS.set, (*filter(_IS_OPEN, ITEMS.get()), work))
        if self.reporter.observers:
            context.run(self.reporter.item_started)
        # With a name, because asyncio writes a text for each task without one.
        task = self.loop.create_task(self._call_until_taken(work), name=_NAME, context=context)
        self._tasks[task] = work
        task.add_done_callback(self._call_ended)

    async def _call_until_taken(self, work: Work) -> Any:
        """Make one call, and repeat it after each 429 as long as this is safe."""
        work.began = time.monotonic()
        next_wait, waited = _FIRST_WAIT, 0.0
        while True:
            try:
                value = await self.call(work.item)
                return work.adopt(value) if isinstance(value, BulkResult) else value
            except RateLimitedError as error:
                asked = next_wait if error.retry_after is None else error.retry_after
                # No security needed here: the random part only spreads the items.
                spread = random.random() * min(max(asked, _FIRST_WAIT), _SPREAD)  # noqa: S311
                next_wait = min(2 * next_wait, _LONGEST_WAIT)
                waited += asked + spread
                is_over = self.patience is not None and waited > self.patience
                is_over = is_over or self.outages.asks_too_long(error)
                if is_over or self.is_closing or not work.may_begin_again(error):
                    raise
                work.refused(error, asked + spread)
                _logger.info("a bulk item: 429; again in %.2f s", asked + spread)
            self.outages.over()
            await asyncio.sleep(asked + spread)

    def _call_ended(self, task: asyncio.Task[Any]) -> None:
        work = self._tasks.pop(task)
        try:
            self._judge(work, task)
        except BaseException as error:  # noqa: BLE001 - of the call, of dump, or of the item's class
            self.fail(error)
            self.finish(work, None)

    def _judge(self, work: Work, task: asyncio.Task[Any]) -> None:
        was_cut = task.cancelled()
        raised = None if was_cut else task.exception()
        if raised is not None and not isinstance(raised, Exception):
            raise raised
        error = self._interruption(work) if was_cut else raised and without_frames(raised)
        work.end(error)
        # At the end of a program, asyncio cancels the calls before it closes the run.
        is_cut = was_cut and work.may_repeat
        if self.outages.works(error):
            self.outages.over()
        elif error and work.is_probe and self.outages.now:
            self.outages.probe_failed(error)
        if is_cut and not self.is_closing:
            self._end_early(work)
        elif is_cut or (isinstance(error, GatewayError) and self._may_pass(work, error)):
            work.withdraw()
            self._under_way.discard(work)
            self._later.append(work)
            if error and not self.is_closing:
                what = getattr(error, "status", None) or type(error).__name__
                _logger.info("a bulk item: %s; again later", what)
            if error and (seconds := retry_after(error)):
                work.due = self.loop.time() + seconds
                self.loop.call_at(work.due + _LATE, self.wake)
            self.wake()
        else:
            work.keep(None if error else task.result())

    def _may_pass(self, work: Work, error: GatewayError) -> bool:
        """Decide whether an item that failed is tried again later, by this run or the next one."""
        lacks_setting = work.lacks_setting(error)
        may_begin_again = work.may_repeat if lacks_setting else work.may_begin_again(error)
        # A gateway that is away would cost all items that must not be sent twice.
        if self._has_expired or not (lacks_setting or may_begin_again or may_pass(error)):
            return False
        if lacks_setting or error.token_is_static:
            self.fail(error)  # all other items would fail too
        is_busy = isinstance(error, RateLimitedError) and not self.outages.asks_too_long(error)
        if self.is_closing or is_busy:
            return self.is_closing and may_begin_again
        is_first, work.has_failed = not work.has_failed, True
        work.failures += self.outages.now is None
        is_last = self.outages.failed(error, work.failures, is_first=is_first)
        return may_begin_again and not is_last

    def _end_early(self, work: Work) -> None:
        """Finish an item for this run alone: the next one begins it again."""
        work.withdraw()
        work.error = work.error or self._interruption(work)
        self.finish(work, work.result_with(None))

    def _interruption(self, work: Work) -> GatewayError:
        """Return the error of an item whose call was ended early, or not begun."""
        if work.began is None:
            return unsent(f"not begun, nothing was sent: {self._late}")
        if self.is_closing:
            return work.interrupted("the run was closed before the call had ended", GatewayError)
        if self._has_expired:
            return work.interrupted(self._late, DeadlineExceededError)
        return work.interrupted("the call was cancelled from within", GatewayError)

    def finish(self, work: Work, result: BulkResult[Any, Any] | None) -> None:
        """Let the result of an item be yielded, and those of its equals; None if it is lost."""
        self._under_way.discard(work)
        self._recalled.discard(work)
        equal = [work] if work.digest is None else self._equal.pop(work.digest)
        if result is not None:
            if work.subject is not None and isinstance(result.error, NotFoundError):
                self._unknown[work.subject] = result.error
            if work.digest is not None and self.ledger is None:
                self._results[work.digest] = result
            for one in equal:
                one.result = result if one is work else replace(result, item=one.item)
            if not self.ordered:
                self._queue += equal
        self.wake()

    def fail(self, error: BaseException) -> None:
        """End the run with this error, after the results of requests that must be sent once."""
        self._error = self._error or error
        self.is_closing = True
        self.cut()

    def _was_in_vain(self) -> bool:
        """Whether the run has ended for an outage that holds no item back."""
        is_outage = isinstance(self._error, OutageError) and not self._held
        return is_outage and self._source.next() is None and self._source.ended

    def cut(self) -> None:
        """End the calls that a run which has failed does not wait for, each once."""
        tasks = self._tasks.items()
        self._end_calls([it for it, work in tasks if not (work.has_sent_once or it.cancelling())])

    def _expire(self) -> None:
        self._has_expired = True  # how much is left of what has no length, is unknown
        self._source.expire(unsent(f"{self._late} before all items were read"))
        # Their last failures are their results, but only of this run.
        while self._later and self._error is None:
            self._end_early(self._later.popleft())
        self._end_calls()

    def _end_calls(self, tasks: Iterable[asyncio.Task[Any]] | None = None) -> None:
        self.outages.close()
        for task in self._tasks if tasks is None else tasks:
            task.cancel()
        self.wake()

    async def _end(self) -> None:
        try:
            await self._source.aclose()
            while self._tasks:  # not only ended: `_call_ended` takes them out
                await asyncio.wait(self._tasks)
        finally:
            await self.recorder.aclose()
            self.recorder.tell_lost(self._error)
