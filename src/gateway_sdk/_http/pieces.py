"""The size of the pieces in which content is handed over."""

from collections.abc import Iterator
from typing import Final, TypeAlias

Piece: TypeAlias = bytes | memoryview

PIECE: Final = 2**16
"""Bytes handed over at once: small enough for progress and cancellation to be prompt."""

LARGE_PIECE: Final = 2**19
"""The same in the rest of a long document: each piece costs 10 to 15 µs, whatever its size."""

FEW: Final = 128 * PIECE
"""Bytes of a document that go out before the pieces become large."""


def most_after(sent: int) -> int:
    """Return the longest that the next piece may be, in bytes."""
    return PIECE if sent < FEW else LARGE_PIECE


def cut(content: Piece, sent: int) -> Iterator[bytes]:
    if len(content) <= most_after(sent):
        yield bytes(content)  # no copy if it is bytes
        return
    view, start = memoryview(content), 0
    while start < len(content):
        end = start + most_after(sent + start)
        yield bytes(view[start:end])
        start = end
