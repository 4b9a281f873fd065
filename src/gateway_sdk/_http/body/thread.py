"""Blocking reads, in a thread beside the event loop."""

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, TypeAlias, TypeVar

from gateway_sdk._http.body.file import Piece

_BATCH: Final = 2**18
"""Bytes per batch: a batch from the thread costs about 0.1 ms, and more leaves the CPU cache."""

PATIENCE: Final = 0.5
"""Seconds that the end of a call waits for an unfinished read of the user's file: a disk answers in
milliseconds, a pipe perhaps never. Shorter than the wait of a closing session for its calls.
"""

T = TypeVar("T")
R = TypeVar("R")

_Batch: TypeAlias = "Future[list[Piece]]"


async def from_thread(
    pieces: Callable[[], Generator[Piece, None, None]], *, ahead: bool
) -> AsyncGenerator[Piece, None]:
    """Run a generator in a thread of its own.

    The thread also closes the generator, after the last read and never in the event loop.

    Args:
        pieces: Makes the generator.
        ahead: Whether to read a batch while the one before is sent, which is faster. Not for a
            file that the user opened: they may use it as soon as the call has ended. A read
            cannot be interrupted, so the end of the call waits for the current read, up to
            `PATIENCE` seconds. After that the read continues alone, and no further one follows.
    """
    thread = _Thread(pieces())
    coming = thread.ask()
    try:
        while batch := await _result_of(coming):
            if ahead:
                coming = thread.ask()
            for piece in batch:
                yield piece
            if not ahead:
                coming = thread.ask()
    finally:
        coming.cancel()
        thread.end()
        if not ahead and not coming.done():
            await _wait(asyncio.wrap_future(coming))


async def in_thread(function: Callable[[T], R], given: T) -> R:
    """Call a function that reads the user's files, in a thread.

    If the caller is cancelled, it waits until the function has ended, up to `PATIENCE` seconds.
    A function that has not started by then never starts.
    """
    left = False

    def look() -> R:
        if left:  # the caller has left: all threads were busy until now
            raise RuntimeError
        return function(given)

    looking = asyncio.get_running_loop().run_in_executor(None, look)
    try:
        return await asyncio.shield(looking)
    except asyncio.CancelledError:
        left = True
        await _wait(looking)
        raise


async def _wait(work: asyncio.Future[Any]) -> None:
    """Wait for work in a thread whose result is not needed, up to `PATIENCE` seconds."""
    # Read its error, or asyncio reports it.
    work.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    await asyncio.wait([work], timeout=PATIENCE)


class _Thread:
    """A thread that takes batches out of a generator, and closes it.

    The thread also ends when this object is deleted, for example after the event loop was closed.
    The exit of the interpreter does not wait for it: a read from a pipe may never end.
    """

    def __init__(self, generator: Generator[Piece, None, None]) -> None:
        self._wanted: SimpleQueue[_Batch | None] = SimpleQueue()
        self.end = weakref.finalize(self, self._wanted.put, None)
        self.end.atexit = False
        threading.Thread(
            target=_serve, args=(generator, self._wanted), name="gateway-upload", daemon=True
        ).start()

    def ask(self) -> _Batch:
        """Ask for the next pieces; none if the generator has ended."""
        batch: _Batch = Future()
        self._wanted.put(batch)
        return batch


async def _result_of(batch: _Batch) -> list[Piece]:
    return batch.result() if batch.done() else await asyncio.wrap_future(batch)


def _serve(generator: Generator[Piece, None, None], wanted: "SimpleQueue[_Batch | None]") -> None:
    """Run in the thread: read one batch for each request."""
    try:
        while batch := wanted.get():
            _fulfil(batch, generator, wanted)
            del batch  # its pieces would stay in memory until the next batch
    finally:
        generator.close()


def _fulfil(
    batch: _Batch, generator: Generator[Piece, None, None], wanted: "SimpleQueue[_Batch | None]"
) -> None:
    if not batch.set_running_or_notify_cancel():
        return
    try:
        pieces = _next(generator, wanted)
    except BaseException as error:  # noqa: BLE001 - it is raised where the batch is waited for
        batch.set_exception(error)
    else:
        batch.set_result(pieces)


def _next(
    generator: Generator[Piece, None, None], wanted: "SimpleQueue[_Batch | None]"
) -> list[Piece]:
    """Take a batch out of a generator; empty when it has ended.

    A piece that is a view is valid for a short time only (see `read_path`), so it ends its batch.
    A request that arrives while a batch is read can only be the end of the thread: then the
    reading stops.
    """
    batch, size = list[Piece](), 0
    for piece in generator:
        batch.append(piece)
        size += len(piece)
        if size >= _BATCH or isinstance(piece, memoryview) or not wanted.empty():
            break
    return batch
