"""The loop that starts calls, waits for them and yields their results."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Generic

from gateway_sdk._call.events import ITEMS
from gateway_sdk.bulk._dedup import Dedup
from gateway_sdk.bulk._limit import Limit, Ticket
from gateway_sdk.bulk._observers import Backoff, ItemObserver, RunObservers
from gateway_sdk.bulk._source import Source
from gateway_sdk.bulk.results import BulkResult, Item, Value
from gateway_sdk.errors import DeadlineExceededError, GatewayError, JournalError, RateLimitedError
from gateway_sdk.outcome import Attempt

AHEAD: Final = 8
"""Items taken but not yet yielded, per call in flight: they wait for a slow item, or equal one."""

_RESULTS_IN_A_ROW: Final = 64
"""Results that are yielded in a row before other tasks may run."""


@dataclass(slots=True, eq=False)
class PendingItem(Generic[Item, Value]):
    item: Item
    digest: bytes | None
    result: BulkResult[Item, Value] | None = None
    followers: list["PendingItem[Item, Value]"] = field(default_factory=list)


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
        self._running: set[asyncio.Task[None]] = set()
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
            while self._run_error is None and self._has_room and (taken := source.next()):
                self._take(source, taken[0])
            if result := self._next_ready():
                return result
            if self._run_error is not None:
                raise self._run_error
            if source.ended and not self._held:
                return None
            await self._woken.wait()
            self._streak = 0

    def _next_ready(self) -> BulkResult[Item, Value] | None:
        while self._queue and (self._queue[0].result or self._run_error is not None):
            result = self._queue.popleft().result
            if result is not None:
                self._held -= 1
                self._ready -= 1
                return result
        return None

    @property
    def _has_room(self) -> bool:
        """Whether another item may be taken; results that wait to be yielded keep their place."""
        # In ordered runs, results may wait for the first one, up to a limit.
        waiting = 0 if self._ordered else self._ready
        return self._limit.has_room(waiting) and self._held < AHEAD * self._limit.size

    def _take(self, source: Source[Item], item: Item) -> None:
        """Start an item, unless its result is known or an equal item is in flight."""
        try:
            digest = self._dedup.digest(item)
            # Of an item in flight, the journal only knows that it has begun.
            known = None if digest in self._leaders else self._dedup.recall(item, digest)
        except Exception as error:  # noqa: BLE001 - an error of the key ends the run
            source.give_up(error)
            return
        pending: PendingItem[Item, Value] = PendingItem(item, digest)
        self._held += 1
        if self._ordered:
            self._queue.append(pending)
        if known is not None:
            self._finish(pending, known)
        elif digest is not None and digest in self._leaders:
            self._leaders[digest].followers.append(pending)
        elif self._expired:
            self._finish(pending, self._not_begun(pending))
        else:
            self._begin(pending)

    def _begin(self, pending: PendingItem[Item, Value]) -> None:
        if pending.digest is not None:
            self._leaders[pending.digest] = pending
        ticket = self._limit.begin(self.wake)
        observer = ItemObserver(ticket, partial(self._record_intent, pending))
        context = copy_context()
        around = (item for item in ITEMS.get() if item.is_open)
        context.run(ITEMS.set, (*around, observer))
        if self._run_observers is not None:
            context.run(self._run_observers.item_started)
        task = asyncio.create_task(self._run(pending, observer, ticket), context=context)
        self._running.add(task)
        task.add_done_callback(lambda task: self._ended(pending, ticket, task))

    async def _record_intent(
        self, pending: PendingItem[Item, Value], observer: ItemObserver
    ) -> None:
        """Record that a request must not be sent twice; if this fails, it is not sent."""
        observer.sends_once = True
        try:
            is_new = await self._dedup.record_intent(pending.item, pending.digest)
        except JournalError as error:
            self._fail(error)
            raise
        if not is_new:
            raise JournalError("not sent: a damaged line may say that it was sent before")

    async def _run(
        self, pending: PendingItem[Item, Value], observer: ItemObserver, ticket: Ticket
    ) -> None:
        began = time.monotonic()
        error: Exception | None = None
        value: Value | None = None
        was_interrupted = False
        try:
            value = await self._call_until_taken(pending.item, observer, ticket)
        except asyncio.CancelledError:
            was_interrupted = self._closing or self._expired
            error = observer.interrupted(
                self._end_reason(), by_deadline=self._expired and not self._closing
            )
        except Exception as raised:  # noqa: BLE001 - the user's function may raise anything
            error = without_frames(raised)
        observer.is_open = False
        known = error.attempts if isinstance(error, GatewayError) else ()
        result: BulkResult[Item, Value] = BulkResult(
            item=pending.item,
            error=error,
            attempts=observer.attempts or len(known),
            elapsed=time.monotonic() - began,
            _value=value,
        )
        if was_interrupted:
            self._dedup.interrupted(pending.digest, result, observer)
            pending.result = result if self._run_error is None else None
        else:
            pending.result = self._dedup.ended(pending.digest, result, observer)

    async def _call_until_taken(self, item: Item, observer: ItemObserver, ticket: Ticket) -> Value:
        """Make one call, and repeat it after each 429 as long as this is safe."""
        backoff = Backoff(observer, self._patience)
        while True:
            try:
                return await self._call(item)
            except RateLimitedError as error:
                if (seconds := backoff.after(error)) is None:
                    raise
                if not observer.has_calls:
                    ticket.attempt_finished(Attempt(error.outcome, error.status, None, 0.0))
            except GatewayError as error:
                if not await self._may_begin_again(error, observer):
                    raise
                continue
            ticket.retry_scheduled(seconds)
            await asyncio.sleep(seconds)

    async def _may_begin_again(self, error: GatewayError, observer: ItemObserver) -> bool:
        """Whether to make a call again, after waiting for what it lacked; never, here."""
        del error, observer
        return False

    def _end_reason(self) -> str:
        if self._closing:
            return "the run was closed before the call had ended"
        if self._expired:
            return f"the deadline of {self._deadline:g} s for the whole run passed"
        return "the call was cancelled from within"

    def _ended(
        self, pending: PendingItem[Item, Value], ticket: Ticket, task: asyncio.Task[None]
    ) -> None:
        self._running.discard(task)
        failure = None if task.cancelled() else task.exception()
        ticket.ended(failure or (pending.result.error if pending.result else None))
        if failure is not None:
            self._fail(failure)
        if pending.digest is not None:
            del self._leaders[pending.digest]
        if pending.result is None and self._run_error is not None:
            return  # the error of the run is raised instead
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
        """End the run, because its results cannot be written."""
        self._run_error = self._run_error or error
        self._closing = True
        for task in self._running:
            task.cancel()
        self.wake()

    def _expire(self, source: Source[Item]) -> None:
        self._expired = True
        source.expire()
        for task in self._running:
            task.cancel()
        self.wake()

    async def _stop(self, source: Source[Item]) -> None:
        self._closing = True
        try:
            running = list(self._running)
            for task in running:
                task.cancel()
            await source.aclose()
            await asyncio.gather(*running, return_exceptions=True)
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
