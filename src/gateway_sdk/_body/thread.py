"""Reading what blocks, off the event loop."""

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final, TypeAlias

from gateway_sdk._body.file import Piece

_BATCH: Final = 2**18
"""Bytes per hop to the thread: a hop costs about 0.1 ms, and more than this leaves the cache."""

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
            belongs to the user is not: they may use it as soon as the call has ended, and there
            must be no read under way then.
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
            _fulfil(batch, generator)
            del batch  # with its pieces, which would stay until the next one is there
    finally:
        generator.close()


def _fulfil(batch: _Batch, generator: Generator[Piece, None, None]) -> None:
    if not batch.set_running_or_notify_cancel():
        return
    try:
        pieces = _next(generator)
    except BaseException as error:  # noqa: BLE001 - it is raised where the batch is waited for
        batch.set_exception(error)
    else:
        batch.set_result(pieces)


def _next(generator: Generator[Piece, None, None]) -> list[Piece]:
    """Take a batch out of a generator; nothing, when it has ended.

    A view is good until the next but one, so there is one in a batch, and it ends it.
    """
    batch, size = list[Piece](), 0
    for piece in generator:
        batch.append(piece)
        size += len(piece)
        if size >= _BATCH or isinstance(piece, memoryview):
            break
    return batch
