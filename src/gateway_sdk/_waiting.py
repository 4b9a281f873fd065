"""Tasks that wait: for shared work, for a thread; and their own cancellations."""

import asyncio
import math
import os
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine
from concurrent.futures import Future
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Final, Generic, TypeVar, cast

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def raise_if_cancelled(error: BaseException) -> None:
    """Raise it again if the current task is cancelled, and not only what it waits for."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task and task.cancelling():
        raise error


async def to_the_end(work: Awaitable[T]) -> T:
    """Do it in a task of its own, and wait for its end, whatever cancels meanwhile."""
    working = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not working.done():  # a scope of anyio cancels again in every turn
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            cancelled = error
    try:
        return working.result()
    finally:
        if cancelled is not None:
            raise cancelled


def hiding_frames(kind: type[Exception]) -> Callable[[F], F]:
    """Raise such errors of a function, and cancellations, without its frames: they are secret."""

    def decorate(function: F) -> F:
        @wraps(function)
        def call_now(*args: Any, **given: Any) -> Any:
            try:
                return function(*args, **given)
            except kind as error:
                failure = error.with_traceback(None)
            del args, given
            try:
                raise failure
            finally:
                del failure  # its frames hold it: only the garbage collector would free them

        @wraps(function)
        async def call(*args: Any, **given: Any) -> Any:
            try:
                return await function(*args, **given)
            except (kind, asyncio.CancelledError) as error:
                failure: BaseException = error.with_traceback(None)
            del args, given
            try:
                raise failure
            finally:
                del failure  # its frames hold it: only the garbage collector would free them

        return cast("F", call if iscoroutinefunction(function) else call_now)

    return decorate


def retrieve_error(future: asyncio.Future[Any]) -> None:
    """Keep asyncio from reporting an error that perhaps nobody waits for."""
    future.add_done_callback(lambda done: done.cancelled() or done.exception())


async def is_done_within(seconds: float, work: asyncio.Future[Any]) -> bool:
    """Wait for work, which goes on after that; who cancels the wait ends the work."""
    retrieve_error(work)
    try:
        await asyncio.wait([work], timeout=seconds)
    except BaseException:
        work.cancel()
        raise
    return work.done()


class OwnCancellation:
    """A cancellation of the current task that its own code asks for, from a callback, and ends."""

    __slots__ = ("_base", "_is_asked_for", "_task")

    def __init__(self, task: asyncio.Task[Any] | None = None, base: int | None = None) -> None:
        current: Any = task or asyncio.current_task()
        self._task: asyncio.Task[object] = current
        # How often others had cancelled it before.
        self._base: int = self._task.cancelling() if base is None else base
        self._is_asked_for = False

    @property
    def is_of_others(self) -> bool:
        """Whether the task is cancelled, and not by this object."""
        return self._task.cancelling() > self._base + self._is_asked_for

    async def raise_that_of_others(self) -> None:
        """Raise the cancellation that code of the user has asked of its own task meanwhile."""
        if self.is_of_others:
            await asyncio.sleep(0)

    def cancel(self) -> bool:
        """Cancel the task, unless it is cancelled already; tell whether it is by this object."""
        # What somebody else has cancelled is left alone: anyio knows its own cancellation by a
        # message, which a second one would replace.
        if not (self._is_asked_for or self.is_of_others):
            self._is_asked_for = True
            self._task.cancel()
        return self._is_asked_for

    def take_back(self, kind: type[BaseException] | None) -> bool:
        """End the cancellation; tell whether this error was raised by it alone."""
        if not self._is_asked_for:
            return False
        self._is_asked_for = False
        return self._task.uncancel() <= self._base and kind is asyncio.CancelledError


async def end_all(
    futures: Collection[asyncio.Future[Any]], patience: float, cut: float | None
) -> None:
    """Wait for work, up to *patience* seconds; then cancel it, and wait up to *cut* seconds."""
    if futures:
        try:
            if patience != 0:
                await asyncio.wait(futures, timeout=patience)
        finally:
            for future in futures:
                future.cancel()
        await asyncio.wait(futures, timeout=cut)


class SingleFlight(Generic[T]):
    """Does work once for all callers that join while it runs."""

    # It goes on when callers are cancelled, even the last one: the next caller joins it.

    def __init__(
        self,
        work: Callable[[], Coroutine[Any, Any, T] | asyncio.Future[T]],
        *,
        hangs_after: float = math.inf,
    ) -> None:
        self._work = work
        self._hangs_after = hangs_after  # seconds, after which the next caller starts anew
        self._hangs_at = math.inf
        self._future: asyncio.Future[T] | None = None
        self._open = set[asyncio.Future[T]]()  # also what nobody may join any more

    async def join(self) -> T:
        """Return the result; CancelledError also if the work was ended."""
        future = self.start()
        await asyncio.wait([future])
        return future.result()

    def start(self) -> asyncio.Future[T]:
        if (future := self.running()) is None:
            future = self._future = asyncio.ensure_future(self._work())
            self._hangs_at = future.get_loop().time() + self._hangs_after
            retrieve_error(future)
            self._open.add(future)
            future.add_done_callback(self._open.discard)
        return future

    async def end(self) -> None:
        """Cancel what runs in this event loop, and wait until it has ended."""
        await end_all(self.open(), 0, None)

    def open(self) -> list[asyncio.Future[T]]:
        """Return all work that runs in this event loop, also what nobody may join any more."""
        loop = asyncio.get_running_loop()
        return [future for future in list(self._open) if future.get_loop() is loop]

    def running(self) -> asyncio.Future[T] | None:
        """Return the work that can be joined in this event loop, if any."""
        future = self._future
        if future is None or future.done() or future.get_loop() is not asyncio.get_running_loop():
            return None
        return future if self.left() > 0 else None

    def left(self) -> float:
        """Return for how many seconds the work can still be joined."""
        return self._hangs_at - asyncio.get_running_loop().time()


def in_thread(name: str, work: Callable[[], T], *, daemon: bool = True) -> asyncio.Future[T]:
    """Start a function that may block, in a thread of its own; the loop's may all be taken."""
    _start_thread(name, work, result := Future[T](), daemon=daemon)
    return asyncio.wrap_future(result)


_at_work: Final[dict[object, tuple[object, Future[Any]]]] = {}


async def in_turn(name: str, place: object, what: object, work: Callable[[], T]) -> T:
    """Run a function in a thread, one at a time for each place; who asks for the same joins it."""
    # So a place that hangs keeps one thread, however often it is asked.
    key = name, place, os.getpid()  # threads end in a fork

    def work_in_turn() -> T:
        try:
            return work()
        finally:
            del _at_work[key]

    while True:
        begun, future = _at_work.setdefault(key, own := (what, Future[Any]()))
        if future is own[1]:
            try:
                _start_thread(name, work_in_turn, future, daemon=True)
            except RuntimeError:  # no thread can be started
                del _at_work[key]
                raise
        waiting: asyncio.Future[T] = asyncio.wrap_future(future)
        if begun == what:
            return await waiting
        retrieve_error(waiting)
        await asyncio.wait([waiting])


def _start_thread(name: str, work: Callable[[], T], result: Future[T], *, daemon: bool) -> None:
    # A process does not wait at its end for a daemon, which may block for ever.
    result.set_running_or_notify_cancel()  # from here on it cannot be cancelled

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - who waits for the result raises it
            result.set_exception(error)

    threading.Thread(target=run, name=name, daemon=daemon).start()
