"""Reading what blocks, off the event loop."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

_BATCH: Final = 2**20  # bytes per hop to the thread: one hop costs about 0.1 ms


async def from_thread(
    pieces: Callable[[], Generator[bytes, None, None]],
) -> AsyncGenerator[bytes, None]:
    """Run a generator in a thread of its own, a megabyte ahead at the most.

    Having its own thread, it is closed in line behind a read that nobody waits for any more, and
    never in the event loop.
    """
    thread = ThreadPoolExecutor(1, "gateway-upload")
    generator = pieces()
    try:
        while batch := await asyncio.wrap_future(thread.submit(_next, generator)):
            for piece in batch:
                yield piece
    finally:
        thread.submit(generator.close)
        thread.shutdown(wait=False)


def _next(generator: Generator[bytes, None, None]) -> list[bytes]:
    """Take about a megabyte out of a generator; nothing, when it has ended."""
    batch, size = list[bytes](), 0
    for piece in generator:
        batch.append(piece)
        size += len(piece)
        if size >= _BATCH:
            break
    return batch
