"""The loop that starts calls, waits for them and yields their results."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Generic, cast

from gateway_sdk._call.events import ITEMS
from gateway_sdk._call.retry import Bucket, RetryBudget
from gateway_sdk.bulk._keys import Dedup
from gateway_sdk.bulk._limit import Limit, Ticket
from gateway_sdk.bulk._observers import Backoff, ItemObserver, RunObservers
from gateway_sdk.bulk._outage import Outages, was_answered
from gateway_sdk.bulk._source import Source
from gateway_sdk.bulk.results import BulkResult, Item, Outage, Value
from gateway_sdk.errors import (
    DeadlineExceededError,
    GatewayError,
    JournalError,
    RateLimitedError,
)
from gateway_sdk.outcome import Attempt

AHEAD: Final = 8
"""Items taken but not yet yielded, per call in flight: they wait for a slow item, or equal one."""

_RESULTS_IN_A_ROW: Final = 64
"""Results that are yielded in a row before other tasks may run."""

_BUDGET: Final = RetryBudget(share=1.0)
"""The retries of a run, apart from those of its sessions: at most one more request per item. What
lacks a retry is tried later, and a gateway that is away is not asked by all items."""


@dataclass(slots=True, eq=False)
class PendingItem(Generic[Item, Value]):
    item: Item
    digest: bytes | None
    result: BulkResult[Item, Value] | None = None
    followers: list["PendingItem[Item, Value]"] = field(default_factory=list)
    failures: int = 0  # outside of outages
    is_later: bool = False  # its call failed, and is made again later
    failure: tuple[BulkResult[Item, Value], ItemObserver] | None = None  # of its last call
    is_probe: bool = False


class Runner(Generic[Item, Value]):
    def __init__(
        self,
        call: Callable[[Item], Awaitable[Value]],
        *,
        limit: Limit,
        dedup: Dedup[Item, Value],
        ordered: bool,
        deadline: float | None,
        patience: float | None,
        observers: RunObservers | None,
        outage_changed: Callable[[Outage | None], None],
    ) -> None:
        self._run_observers = observers
        self._call = call
        self._patience = patience
        self._limit = limit
        self._dedup = dedup
        self._ordered = ordered
        self._deadline = deadline
        self._expired = False
        self._closing = False
        self._run_error: BaseException | None = None
        self._woken = asyncio.Event()
        self._outages = Outages(patience, changed=outage_changed, wake=self.wake, end=self._fail)
        self._budget = Bucket(_BUDGET)
        self._later: deque[PendingItem[Item, Value]] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._calling: set[asyncio.Task[None]] = set()  # those that may be cancelled
        self._leaders: dict[bytes, PendingItem[Item, Value]] = {}
        self._queue: deque[PendingItem[Item, Value]] = deque()
        self._held = 0
        self._ready = 0
        self._streak = 0

    def wake(self) -> None:
        self._woken.set()

    async def results(self, source: Source[Item]) -> AsyncGenerator[BulkResult[Item, Value], None]:
        """Yield one result for each item; leave nothing running at the end or after an error."""
        loop = asyncio.get_running_loop()
        timer = None
        if self._deadline is not None:
            timer = loop.call_later(self._deadline, self._expire, source)
        try:
            await self._dedup.open()
            while result := await self._next(source):
                yield result
        finally:
            if timer is not None:
                timer.cancel()
            await self._stop(source)
        if source.error is not None:
            raise source.error

    async def _next(self, source: Source[Item]) -> BulkResult[Item, Value] | None:
        self._streak += 1
        if self._streak % _RESULTS_IN_A_ROW == 0:
            await asyncio.sleep(0)
        while True:
            self._woken.clear()
            while self._run_error is None and self._start_one(source):
                pass
            if result := self._next_ready():
                return result
            if self._run_error is not None and self._is_written:
                raise self._run_error
            if source.ended and not self._held:
                return None
            await self._woken.wait()
            self._streak = 0

    def _next_ready(self) -> BulkResult[Item, Value] | None:
        has_failed = self._run_error is not None and self._is_written
        while self._queue and (self._queue[0].result or has_failed):
            result = self._queue.popleft().result
            if result is not None:
                self._held -= 1
                self._ready -= 1
                return result
        return None

    @property
    def _is_written(self) -> bool:
        """Whether no result is being written, which is yielded before the run fails."""
        return self._running <= self._calling

    def _start_one(self, source: Source[Item]) -> bool:
        """Start a new item, or else one that failed; False if there is none, or no room."""
        # In ordered runs, results may wait for the first one, up to a limit.
        waiting = 0 if self._ordered else self._ready
        if not self._outages.allows_call or not self._limit.has_room(waiting):
            return False
        # In an outage, a new item may be better to try with than those that failed.
        may_take = self._held < AHEAD * self._limit.size or self._outages.is_on
        if may_take and (taken := source.next()):
            self._take(source, taken[0])
        elif self._later and not source.is_asked:
            self._begin(self._later.popleft())
        else:
            return False
        return True

    def _take(self, source: Source[Item], item: Item) -> None:
        """Start an item, unless its result is known or an equal item is in flight."""
        try:
            digest = self._dedup.digest(item)
        except Exception as error:  # noqa: BLE001 - an error of the key ends the run
            source.give_up(error)
            return
        pending: PendingItem[Item, Value] = PendingItem(item, digest)
        self._held += 1
        if self._ordered:
            self._queue.append(pending)
        if digest is not None and digest in self._leaders:
            self._leaders[digest].followers.append(pending)
        elif self._dedup.has(digest):
            self._start(pending, self._recall(pending))
        elif self._expired:
            self._finish(pending, self._not_begun(pending))
        else:
            self._begin(pending)

    def _begin(self, pending: PendingItem[Item, Value]) -> None:
        pending.is_later, pending.is_probe = False, self._outages.take_probe()
        self._budget.calls += 1
        ticket = self._limit.begin(self.wake)
        observer = ItemObserver(
            ticket,
            self._budget,
            partial(self._record_intent, pending),
            partial(self._dedup.withdraw, pending.item, pending.digest),
        )
        context = copy_context()
        around = (item for item in ITEMS.get() if item.is_open)
        context.run(ITEMS.set, (*around, observer))
        if self._run_observers is not None:
            context.run(self._run_observers.item_started)
        task = self._start(pending, self._run(pending, observer, ticket), ticket, context)
        self._calling.add(task)

    async def _recall(self, pending: PendingItem[Item, Value]) -> None:
        pending.result = await self._dedup.recall(pending.item, pending.digest)

    def _start(
        self,
        pending: PendingItem[Item, Value],
        work: Coroutine[Any, Any, None],
        ticket: Ticket | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[None]:
        if pending.digest is not None:
            self._leaders[pending.digest] = pending
        task = asyncio.create_task(work, context=context)
        self._running.add(task)
        task.add_done_callback(lambda task: self._ended(pending, ticket, task))
        return task

    async def _record_intent(
        self, pending: PendingItem[Item, Value], observer: ItemObserver
    ) -> None:
        """Record that a request must not be sent twice; if this fails, it is not sent."""
        observer.sends_once = True
        try:
            await self._dedup.record_intent(pending.item, pending.digest)
        except JournalError as error:
            self._fail(error)
            raise

    async def _run(
        self, pending: PendingItem[Item, Value], observer: ItemObserver, ticket: Ticket
    ) -> None:
        began = time.monotonic()
        error: Exception | None = None
        value: Value | None = None
        was_interrupted = False
        try:
            value = await self._call_until_taken(pending, observer, ticket)
        except asyncio.CancelledError:
            was_interrupted = self._closing or self._expired
            error = observer.interrupted(
                self._end_reason(), by_deadline=self._expired and not self._closing
            )
        except Exception as raised:  # noqa: BLE001 - the user's function may raise anything
            error = without_frames(raised)
        finally:
            observer.is_open = False
            # What has ended is written, also when the run is closed or its deadline passes.
            self._calling.discard(cast("asyncio.Task[None]", asyncio.current_task()))
        known = error.attempts if isinstance(error, GatewayError) else ()
        before, pending.failure = pending.failure, None
        result: BulkResult[Item, Value] = BulkResult(
            item=pending.item,
            error=error,
            attempts=(observer.attempts or len(known)) + (before[0].attempts if before else 0),
            elapsed=time.monotonic() - began + (before[0].elapsed if before else 0.0),
            _value=value,
        )
        if was_interrupted:
            await self._dedup.interrupted(pending.digest, result, observer)
            pending.result = result if self._run_error is None else None
        elif pending.is_later and not (self._closing or self._expired):
            await observer.withdraw()
            pending.failure = result, observer
        else:
            pending.result = await self._dedup.ended(pending.digest, result, observer)

    def _put_off(self, pending: PendingItem[Item, Value]) -> None:
        if self._closing:  # the next run begins it again
            return
        if self._expired:
            self._start(pending, self._give_up(pending))
        else:
            self._later.append(pending)
            self.wake()

    async def _give_up(self, pending: PendingItem[Item, Value]) -> None:
        """Take the last failure for the result."""
        result, observer = cast("tuple[BulkResult[Item, Value], ItemObserver]", pending.failure)
        pending.result = await self._dedup.ended(pending.digest, result, observer)

    async def _call_until_taken(
        self, pending: PendingItem[Item, Value], observer: ItemObserver, ticket: Ticket
    ) -> Value:
        """Make one call, and repeat it after each 429 as long as this is safe."""
        backoff = Backoff(self._patience)
        while True:
            is_probe, pending.is_probe = pending.is_probe, False
            try:
                value = await self._call(pending.item)
            except BaseException as error:
                if was_answered(error):
                    self._outages.over()
                elif is_probe:
                    self._outages.probe_failed()
                if not isinstance(error, GatewayError) or not observer.may_begin_again(error):
                    raise
                if not observer.has_calls:
                    status, kind = getattr(error, "status", None), type(error).__name__
                    ticket.attempt_finished(Attempt(error.outcome, status, kind, 0.0))
                if not isinstance(error, RateLimitedError):
                    await self._judge(pending, error)
                    raise
                if (seconds := backoff.after(error)) is None:
                    raise
            else:
                self._outages.over()
                return value
            await observer.withdraw()
            ticket.retry_scheduled(seconds)
            await asyncio.sleep(seconds)

    async def _judge(self, pending: PendingItem[Item, Value], error: GatewayError) -> None:
        """Decide whether an item that failed is tried again."""
        if error.token_is_static:  # all other items would fail too
            self._fail(without_frames(error))
            await asyncio.sleep(0)  # this task was cancelled too
        pending.failures += not self._outages.is_on
        is_final = self._outages.failed(error, pending.failures, is_first=pending.failure is None)
        pending.is_later = not is_final

    def _end_reason(self) -> str:
        if self._closing:
            return "the run was closed before the call had ended"
        if self._expired:
            return f"the deadline of {self._deadline:g} s for the whole run passed"
        return "the call was cancelled from within"

    def _ended(
        self, pending: PendingItem[Item, Value], ticket: Ticket | None, task: asyncio.Task[None]
    ) -> None:
        self._running.discard(task)
        self._calling.discard(task)
        failure = None if task.cancelled() else task.exception()
        result = pending.result or (pending.failure and pending.failure[0])
        if ticket is not None:
            ticket.ended(failure or (result.error if result else None))
        if failure is not None:
            self._fail(failure)
        if pending.failure is not None and pending.result is None and self._run_error is None:
            self._put_off(pending)
            return
        if pending.digest is not None:
            del self._leaders[pending.digest]
        if pending.result is None and self._run_error is not None:
            self.wake()  # the error of the run is raised instead
            return
        # A task that is cancelled before its first step never runs.
        result, pending.result = pending.result or self._not_begun(pending), None
        self._finish(pending, result)
        for follower in pending.followers:
            self._finish(follower, replace(result, item=follower.item))

    def _finish(self, pending: PendingItem[Item, Value], result: BulkResult[Item, Value]) -> None:
        pending.result = result
        self._ready += 1
        if not self._ordered:
            self._queue.append(pending)
        self.wake()

    def _not_begun(self, pending: PendingItem[Item, Value]) -> BulkResult[Item, Value]:
        error = DeadlineExceededError(
            f"not begun, nothing was sent: the deadline of {self._deadline or 0:g} s for the whole "
            "run passed"
        )
        return BulkResult(item=pending.item, error=error, elapsed=0.0, _value=None)

    def _fail(self, error: BaseException) -> None:
        """End the calls, and then the run with this error."""
        self._run_error = self._run_error or error
        self._closing = True
        self._outages.close()
        for task in self._calling:
            task.cancel()
        self.wake()

    def _expire(self, source: Source[Item]) -> None:
        self._expired = True
        self._outages.close()
        source.expire()
        while self._later:
            self._put_off(self._later.popleft())
        for task in self._calling:
            task.cancel()
        self.wake()

    async def _stop(self, source: Source[Item]) -> None:
        self._closing = True
        self._outages.close()
        try:
            for task in self._calling:
                task.cancel()
            await source.aclose()
            await asyncio.gather(*self._running, return_exceptions=True)
        finally:
            await self._dedup.aclose()


def without_frames(error: Exception) -> Exception:
    """Return an error whose tracebacks are gone: they hold the frames, and all that these hold."""
    chain: list[BaseException] = [error]
    for link in chain:  # the loop adds to this list
        link.__traceback__ = None
        more = (link.__cause__, link.__context__)
        chain += [other for other in more if other is not None and other not in chain]
    return error
