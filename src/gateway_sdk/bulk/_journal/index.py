"""The index of a journal: reads the file, mends damaged lines, knows the valid line of each key."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from gateway_sdk.bulk._dedup import DIGEST_BYTES
from gateway_sdk.bulk._journal.file import JournalFile
from gateway_sdk.bulk._journal.line import (
    HEAD_START,
    Failure,
    Head,
    JournalLine,
    LineState,
    head_of,
)
from gateway_sdk.outcome import Advice

UNREADABLE: Final = Failure(
    error="ReplyLostError",
    message="the line of this item in the journal was damaged",
    outcome="UNKNOWN",
    advice=Advice.CHECK,
)
"""The failure of an item that may have been sent and must not be sent twice."""

_NOTHING: Final = b"\xef\xbb\xbf \t\r\n"
"""Bytes that an editor may add: a byte order mark, white space."""

_SHORT: Final = head_of("")[1]
"""The length of the shortest head. A blank part of this length may have been a line."""


@dataclass(slots=True)
class DamagedLines:
    number: int  # of the first line, from 1
    begin: int  # offset in the file
    lines: list[bytes] = field(default_factory=list)

    @property
    def text(self) -> bytes:
        return b"".join(self.lines)


def split_damaged(text: bytes) -> Iterator[tuple[Head | None, bytes]]:
    """Split damaged lines into lines with a valid head, and the parts between them."""
    at = 0
    while at < len(text):
        head = Head.of(text, at)
        end = at + max(head.length, head.size) if head else text.find(HEAD_START, at + 1)
        if end < 0:
            end = len(text)
        yield head, text[at:end]
        if head is not None and end > len(text) and not _is_whole(text[at:]):
            yield None, b"?"  # the file is too short: other lines may be lost
        at = end


def repaired(job: str, text: bytes) -> Iterator[bytes]:
    """Return what replaces damaged lines; items whose lines are dropped are fetched again."""
    for head, piece in split_damaged(text):
        if head is None:
            if piece.strip(_NOTHING) or len(piece) >= _SHORT:
                yield JournalLine(job=job, key=bytes(DIGEST_BYTES), state=LineState.LOST).encode()
        elif _is_whole(piece):  # an editor may have added bytes around it
            yield piece[: head.length - 1] + b"\n"
        elif head.once:
            yield JournalLine(
                job=job, key=head.key, once=True, state=LineState.FAILED, failure=UNREADABLE
            ).encode()


def jobs_of(parts: Iterable[DamagedLines]) -> set[str]:
    heads = (head for part in parts for head, _ in split_damaged(part.text))
    return {head.job for head in heads if head is not None}


def _is_whole(piece: bytes) -> bool:
    """Tell whether a line is unchanged, except for its end."""
    head = Head.of(piece)
    try:
        JournalLine.decode(piece[: head.length - 1] if head else piece)
    except ValueError:
        return False
    return True


CAN_REPLACE: Final = os.name != "nt"
"""Windows cannot replace an open file, so old lines stay; the last line of a key counts anyway."""

_LOST: Final = b""
"""The key of the line that says that another line was lost."""


class Index:
    """The offset of the valid line of each key."""

    def __init__(self, file: JournalFile, job: str, *, retry_failed: bool, repair: bool) -> None:
        self._file = file
        self._job = job
        self._retry_failed = retry_failed
        self._repair = repair
        self._offsets: dict[bytes, int] = {}
        self._lines = 0
        self._torn: int | None = None
        self._lacks_end = False

    @property
    def is_complete(self) -> bool:
        """Whether no line was lost, so that an item without a line was never started."""
        return _LOST not in self._offsets

    def get(self, key: bytes) -> int | None:
        return self._offsets.get(key)

    def set(self, key: bytes, offset: int) -> None:
        self._offsets[key] = offset

    def read(self) -> None:
        damaged = self._scan()
        if damaged:
            self._check_damage(damaged)
        self._repair_end()
        if damaged:
            self._keep(damaged)
            self._replace(self._repaired(damaged))
        if len(self._offsets) < self._lines and CAN_REPLACE:
            counting = set(self._offsets.values())
            self._replace(line for at, line in self._file.lines() if at in counting)

    def _keep(self, damaged: list[DamagedLines]) -> None:
        try:
            self._file.keep_damaged([part.text for part in damaged])
        except OSError as error:
            where = self._file.damaged_path
            raise self._file.error(
                f"cannot be repaired: {where} cannot be written: {error.strerror}"
            ) from None

    def _replace(self, lines: Iterable[bytes]) -> None:
        try:
            self._file.replace(lines)
        except OSError as error:
            raise self._file.error(
                f"cannot be replaced by a new one beside it: {error.strerror}; it is unchanged"
            ) from None
        self._scan()

    def _scan(self) -> list[DamagedLines]:
        self._offsets.clear()
        self._lines, self._torn, self._lacks_end = 0, None, False
        damaged: list[DamagedLines] = []
        end = -1
        for number, (offset, text) in enumerate(self._file.lines(), 1):
            try:
                line = JournalLine.decode(text)
            except ValueError:
                if self._is_torn(text):
                    self._torn = offset
                    break
                if offset != end:
                    damaged.append(DamagedLines(number, offset))
                damaged[-1].lines.append(text)
                end = offset + len(text)
                continue
            self._take(offset, line)
            self._lacks_end = not text.endswith(b"\n")
        return damaged

    def _repair_end(self) -> None:
        if self._torn is not None:
            self._file.truncate(self._torn)
        if self._lacks_end:
            self._file.append(b"\n")

    def _take(self, offset: int, line: JournalLine) -> None:
        self._lines += 1
        self._check_job(line.job)
        key = _LOST if line.state is LineState.LOST else line.key
        if self._counts(line):
            self._offsets[key] = offset
        else:
            self._offsets.pop(key, None)

    def _counts(self, line: JournalLine) -> bool:
        if line.state is LineState.INTERRUPTED:
            return False
        if self._retry_failed and line.state is LineState.FAILED and line.failure is not None:
            return line.failure.advice is Advice.CHECK
        return True

    def _is_torn(self, text: bytes) -> bool:
        """Tell whether this is an incomplete last line, which was being written at the end."""
        if text.endswith(b"\n"):
            return False
        seen = text.rstrip(b"\0")  # a power cut leaves zeros in place of unwritten bytes
        start, size = head_of(self._job)
        if len(seen) < size:
            return start.startswith(seen[: len(start)])
        head = Head.of(seen)
        # A line of the full length was written completely, so it is damaged.
        return head is not None and head.job == self._job and len(seen) < head.length

    def _check_job(self, job: str) -> None:
        if job != self._job:
            raise self._file.error(
                f"belongs to the job {job!r}, not to {self._job!r}: give another file"
            )

    def _check_damage(self, damaged: list[DamagedLines]) -> None:
        first, count = damaged[0].number, sum(len(part.lines) for part in damaged)
        named = jobs_of(damaged)
        if not self._lines and not named:
            raise self._file.error(f"is not a journal: see its line {first}; give another file")
        for job in named:
            self._check_job(job)
        if not self._repair:
            more = f", and {count - 1} more" if count > 1 else ""
            raise self._file.error(
                f"is damaged: see its line {first}{more}; a repair leaves these lines out, keeps "
                f"them in {self._file.damaged_path}, and their items are fetched again",
                can_be_repaired=True,
            )
        if not CAN_REPLACE:
            raise self._file.error("cannot be repaired on Windows: repair it on another system")

    def _repaired(self, damaged: list[DamagedLines]) -> Iterator[bytes]:
        parts = iter(damaged)
        part = next(parts, None)
        end = -1
        for offset, line in self._file.lines():
            if offset < end:
                continue
            if part is None or offset != part.begin:
                yield line
                continue
            end = offset + sum(map(len, part.lines))
            yield from repaired(self._job, part.text)
            part = next(parts, None)
