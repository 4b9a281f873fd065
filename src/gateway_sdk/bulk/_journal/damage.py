"""Damaged lines of a journal: what can still be known of them. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gateway_sdk.bulk._digests import DIGEST_BYTES
from gateway_sdk.bulk._journal.line import HEAD_START, Failure, Head, Line, LineState, head_of

UNREADABLE: Final = Failure(
    error="ReplyLostError",
    message="what the journal had of it was damaged",
    outcome="UNKNOWN",
    safe_to_repeat=False,
)
"""What is said of an item that may have been made, and must not be made twice."""

_NOTHING: Final = b"\xef\xbb\xbf \t\r\n"
"""What an editor may add: a byte order mark, white space."""

_SHORT: Final = head_of("")[1]
"""No line is as short as this: where that much is blank, there may have been one."""


@dataclass(slots=True)
class Stretch:
    """Consecutive lines that are damaged.

    Attributes:
        number: The first one's, counted from 1.
        begin: Where it begins in the file, in bytes.
    """

    number: int
    begin: int
    lines: list[bytes] = field(default_factory=list)

    @property
    def text(self) -> bytes:
        """All of it."""
        return b"".join(self.lines)


def pieces(text: bytes) -> Iterator[tuple[Head | None, bytes]]:
    """Take a stretch apart: a line whose head can be trusted, and what lies between such lines.

    Of a line that was changed in its place, the next begins where its head says. If it does not,
    or the file ends before, other lines may have been there: then a piece without a head follows.
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
    """Return the lines that take the place of a stretch of damaged ones.

    A line that is whole but for what an editor added around it stays. Of one that can be told
    to be that of something that must not be made twice there is a line that says that its outcome
    is unknown; of others none, so that they are fetched again. Where it cannot be told, a line
    says that something was lost.
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
    """Return the jobs that are named in damaged lines."""
    heads = (head for stretch in stretches for head, _ in pieces(stretch.text))
    return {head.job for head in heads if head is not None}


def _is_whole(piece: bytes) -> bool:
    """Tell whether a line is as it was written, but for its end."""
    head = Head.of(piece)
    try:
        Line.decode(piece[: head.length - 1] if head else piece)
    except ValueError:
        return False
    return True
