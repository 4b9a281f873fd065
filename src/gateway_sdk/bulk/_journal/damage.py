"""Damaged lines of a journal, and what can still be read in them. No I/O here."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gateway_sdk.bulk._digests import DIGEST_BYTES
from gateway_sdk.bulk._journal.line import HEAD_START, Failure, Head, Line, LineState, head_of

UNREADABLE: Final = Failure(
    error="ReplyLostError",
    message="the line of this item in the journal was damaged",
    outcome="UNKNOWN",
    safe_to_repeat=False,
)
"""The failure of an item that may have been sent and must not be sent twice."""

_NOTHING: Final = b"\xef\xbb\xbf \t\r\n"
"""Bytes that an editor may add: a byte order mark, white space."""

_SHORT: Final = head_of("")[1]
"""The length of the shortest head. A blank part of this length may have been a line."""


@dataclass(slots=True)
class Stretch:
    """Consecutive damaged lines.

    Attributes:
        number: The number of the first line, from 1.
        begin: The offset of the first line in the file, in bytes.
    """

    number: int
    begin: int
    lines: list[bytes] = field(default_factory=list)

    @property
    def text(self) -> bytes:
        """All lines together."""
        return b"".join(self.lines)


def pieces(text: bytes) -> Iterator[tuple[Head | None, bytes]]:
    """Split damaged lines into lines with a valid head, and the parts between them.

    A valid head gives the length of its line, so the next line begins after it. If no line begins
    there, or the file is shorter, other lines may be lost: then a piece without a head follows.
    """
    at = 0
    while at < len(text):
        head = Head.of(text, at)
        end = at + max(head.length, head.size) if head else text.find(HEAD_START, at + 1)
        if end < 0:
            end = len(text)
        yield head, text[at:end]
        if head is not None and end > len(text) and not _is_whole(text[at:]):
            yield None, b"?"
        at = end


def mended(job: str, text: bytes) -> Iterator[bytes]:
    """Return the lines that replace consecutive damaged lines.

    A complete line is kept, without the bytes that an editor added around it. A line whose head
    says that the item must not be sent twice is replaced by one with the outcome UNKNOWN. Other
    lines are dropped, so that their items are fetched again. A part without a head is replaced by
    a line that says that lines were lost.
    """
    for head, piece in pieces(text):
        if head is None:
            if piece.strip(_NOTHING) or len(piece) >= _SHORT:
                yield Line(job=job, key=bytes(DIGEST_BYTES), state=LineState.LOST).encode()
        elif _is_whole(piece):
            yield piece[: head.length - 1] + b"\n"
        elif head.once:
            yield Line(
                job=job, key=head.key, once=True, state=LineState.FAILED, failure=UNREADABLE
            ).encode()


def jobs(stretches: Iterable[Stretch]) -> set[str]:
    """Return the jobs that the damaged lines name."""
    heads = (head for stretch in stretches for head, _ in pieces(stretch.text))
    return {head.job for head in heads if head is not None}


def _is_whole(piece: bytes) -> bool:
    """Tell whether a line is unchanged, except for its end."""
    head = Head.of(piece)
    try:
        Line.decode(piece[: head.length - 1] if head else piece)
    except ValueError:
        return False
    return True
