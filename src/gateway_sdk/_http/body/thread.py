"""Reading what blocks, off the event loop."""

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final, TypeAlias, TypeVar

from gateway_sdk._http.body.file import Piece

_BATCH: Final = 2**18
"""Bytes per hop to the thread: a hop costs about 0.1 ms, and more than this leaves the cache."""

PATIENCE: Final = 0.5
"""Seconds that the end of a call waits for a read of the user's file that is under way: a disk
answers within milliseconds, a pipe perhaps never. Less than closing a session waits for its calls.
"""

T = TypeVar("T")
R = TypeVar("R")

_Batch: TypeAlias = "Future[list[Piece]]"


async def from_thread(
    pieces: Callable[[], Generator[Piece, None, None]], *, ahead: bool
) -> AsyncGenerator[Piece, None]:
    """Run a generator in a thread of its own.

    Having its own thread, it is closed in line behind a read that nobody waits for any more, and
    never in the event loop.

    Args:
        pieces: Makes the generator.
        ahead: Whether a batch is read while the one before is sent, which takes less time. What
            belongs to the user is not: they may use it as soon as the call has ended. A read
            cannot be interrupted, so the end waits for the one that is under way, but no longer
            than `PATIENCE`. After that it goes on alone, and no other one follows.
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
    """Call a function that looks at the user's files, in a thread.

    If the caller is cancelled, it waits until the function has ended, but no longer than
    `PATIENCE`. A function that has not begun by then never begins.
    """
    left = False

    def look() -> R:
        if left:  # all threads were busy until now
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
    """Wait for work in a thread whose result nobody wants any more, but no longer than that."""
    # Its error is taken, so that asyncio does not report it.
    work.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    await asyncio.wait([work], timeout=PATIENCE)


class _Thread:
    """A thread that takes batches out of a generator, and closes it.

    It ends with this object, should nobody come to end it because the event loop is closed. The
    exit of the interpreter does not wait for it: a pipe may have a writer who never writes.
    """

    def __init__(self, generator: Generator[Piece, None, None]) -> None:
        self._wanted: SimpleQueue[_Batch | None] = SimpleQueue()
        self.end = weakref.finalize(self, self._wanted.put, None)
        self.end.atexit = False
        threading.Thread(
            target=_serve, args=(generator, self._wanted), name="gateway-upload", daemon=True
        ).start()

    def ask(self) -> _Batch:
        """Ask for the next pieces, of which there are none when the generator has ended."""
        batch: _Batch = Future()
        self._wanted.put(batch)
        return batch


async def _result_of(batch: _Batch) -> list[Piece]:
    return batch.result() if batch.done() else await asyncio.wrap_future(batch)


def _serve(generator: Generator[Piece, None, None], wanted: "SimpleQueue[_Batch | None]") -> None:
    """Run in the thread: take batch after batch, as they are asked for."""
    try:
        while batch := wanted.get():
            _fulfil(batch, generator, wanted)
            del batch  # with its pieces, which would stay until the next one is there
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
    """Take a batch out of a generator; nothing, when it has ended.

    A view is good until the next but one, so there is one in a batch, and it ends it. Only the
    end of the thread is asked for while a batch is taken: then nothing more is read.
    """
    batch, size = list[Piece](), 0
    for piece in generator:
        batch.append(piece)
        size += len(piece)
        if size >= _BATCH or isinstance(piece, memoryview) or not wanted.empty():
            break
    return batch
