"""What a journal knows when it is opened."""

import os
from collections.abc import Iterator
from typing import Final

from gateway_sdk.bulk._journal.damage import Stretch, jobs, mended
from gateway_sdk.bulk._journal.file import JournalFile
from gateway_sdk.bulk._journal.line import Head, Line, LineState, head_of

CAN_REPLACE: Final = os.name != "nt"
"""Windows does not replace a file that is open. There, too, the last line of a key counts."""

_LOST: Final = b""
"""The key under which the line stands that says that another was lost."""


class Index:
    """Where the line of each key begins that counts.

    Args:
        job: Whose journal it has to be.
        retry_failed: Whether lines of failures that may be repeated count no more.
        repair: Whether to go on without lines that are damaged.
    """

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
    def knows_all(self) -> bool:
        """Whether no line was lost: then an item without a line was never begun."""
        return _LOST not in self._offsets

    def get(self, key: bytes) -> int | None:
        """Return where the line of a key begins; None if it has none."""
        return self._offsets.get(key)

    def note(self, key: bytes, offset: int) -> None:
        """Have this line count for its key."""
        self._offsets[key] = offset

    def read(self) -> None:
        """Read the whole file; cut off half a line at its end, and lines that count no more.

        Blocks.

        Raises:
            JournalError: it is no journal, or that of another job, or damaged and not to be
                repaired; it is left as it is.
        """
        damaged = self._scan()
        if damaged:
            self._check_damage(damaged)
        self._mend_end()
        if damaged:
            self._file.keep_beside([stretch.text for stretch in damaged])
            self._file.replace(self._repaired(damaged))
            self._scan()
        if len(self._offsets) < self._lines and CAN_REPLACE:
            counting = set(self._offsets.values())
            self._file.replace(line for at, line in self._file.lines() if at in counting)
            self._scan()

    def _scan(self) -> list[Stretch]:
        """Take note of each line, and return those that are damaged."""
        self._offsets.clear()
        self._lines, self._torn, self._lacks_end = 0, None, False
        damaged: list[Stretch] = []
        end = -1
        for number, (offset, text) in enumerate(self._file.lines(), 1):
            try:
                line = Line.decode(text)
            except ValueError:
                if self._is_torn(text):
                    self._torn = offset
                    break
                if offset != end:
                    damaged.append(Stretch(number, offset))
                damaged[-1].lines.append(text)
                end = offset + len(text)
                continue
            self._take(offset, line)
            self._lacks_end = not text.endswith(b"\n")
        return damaged

    def _mend_end(self) -> None:
        """Give the last line its end, or cut it off if it was not written to its end."""
        if self._torn is not None:
            self._file.truncate(self._torn)
        if self._lacks_end:
            self._file.append(b"\n")

    def _take(self, offset: int, line: Line) -> None:
        self._lines += 1
        self._check_job(line.job)
        key = _LOST if line.state is LineState.LOST else line.key
        if self._counts(line):
            self._offsets[key] = offset
        else:
            self._offsets.pop(key, None)

    def _counts(self, line: Line) -> bool:
        if line.state is LineState.INTERRUPTED:
            return False
        if self._retry_failed and line.state is LineState.FAILED and line.failure is not None:
            return not line.failure.safe_to_repeat
        return True

    def _is_torn(self, text: bytes) -> bool:
        """Tell whether it is what is left of a last line of ours that was not written to its end.

        A power cut leaves zeros where something was to be written. A last line as long as it
        should be was written, and is damaged.
        """
        if text.endswith(b"\n"):
            return False
        seen = text.rstrip(b"\0")
        start, size = head_of(self._job)
        if len(seen) < size:
            return start.startswith(seen[: len(start)])
        head = Head.of(seen)
        return head is not None and head.job == self._job and len(seen) < head.length

    def _check_job(self, job: str) -> None:
        if job != self._job:
            raise self._file.trouble(
                f"belongs to the job {job!r}, not to {self._job!r}: give another file"
            )

    def _check_damage(self, damaged: list[Stretch]) -> None:
        """Make sure that it is a journal, of this job, and to be repaired."""
        first, count = damaged[0].number, sum(len(stretch.lines) for stretch in damaged)
        named = jobs(damaged)
        if not self._lines and not named:
            raise self._file.trouble(f"is no journal: see its line {first}; give another file")
        for job in named:
            self._check_job(job)
        if not self._repair:
            more = f", and {count - 1} more" if count > 1 else ""
            raise self._file.trouble(
                f"is damaged: see its line {first}{more}; repair=True goes on without such lines, "
                f"keeps them in {self._file.beside}, and fetches again what they held"
            )
        if not CAN_REPLACE:
            raise self._file.trouble("cannot be repaired on Windows: repair it on another system")

    def _repaired(self, damaged: list[Stretch]) -> Iterator[bytes]:
        """Yield all lines that are whole, and in place of the others what is known of them."""
        stretches = iter(damaged)
        stretch = next(stretches, None)
        end = -1
        for offset, line in self._file.lines():
            if offset < end:
                continue
            if stretch is None or offset != stretch.begin:
                yield line
                continue
            end = offset + sum(map(len, stretch.lines))
            yield from mended(self._job, stretch.text)
            stretch = next(stretches, None)
