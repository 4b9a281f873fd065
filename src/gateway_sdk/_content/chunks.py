"""The size of the chunks in which content is handed over."""

from collections.abc import Iterator
from typing import Final, TypeAlias

Chunk: TypeAlias = bytes | memoryview

CHUNK: Final = 2**16
"""Bytes handed over at once: small enough for progress and cancellation to be prompt."""

LARGE_CHUNK: Final = 2**19
"""The same in the rest of a long document: each chunk costs 10 to 15 µs, whatever its size."""

FEW: Final = 128 * CHUNK
"""Bytes of a document that go out before the chunks become large."""


def most_after(sent: int) -> int:
    """Return the longest that the next chunk may be, in bytes."""
    return CHUNK if sent < FEW else LARGE_CHUNK


def cut(content: Chunk, sent: int) -> Iterator[bytes]:
    if len(content) <= most_after(sent):
        yield bytes(content)  # no copy if it is bytes
        return
    view, start = memoryview(content), 0
    while start < len(content):
        end = start + most_after(sent + start)
        yield bytes(view[start:end])
        start = end
