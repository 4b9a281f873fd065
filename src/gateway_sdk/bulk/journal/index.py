"""What a journal knows when it is opened."""

import os
from typing import Final

from gateway_sdk.bulk.journal.file import JournalFile
from gateway_sdk.bulk.journal.line import Line, State
from gateway_sdk.errors import JournalError

CAN_REPLACE: Final = os.name != "nt"
"""Windows does not replace a file that is open. There, too, the last line of a key counts."""


class Index:
    """Where the line of each key begins that counts.

    Args:
        job: Whose journal it has to be.
        retry_failed: Whether lines of failures that may be repeated count no more.
    """

    def __init__(self, file: JournalFile, job: str, *, retry_failed: bool) -> None:
        self._file = file
        self._job = job
        self._retry_failed = retry_failed
        self._offsets: dict[bytes, int] = {}
        self._lines = 0

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
            JournalError: it is no journal, or that of another job; it is left as it is.
        """
        for offset, line in self._file.lines():
            if not line.endswith(b"\n"):
                self._mend(offset, line)
                break
            self._take(offset, line)
        counting = set(self._offsets.values())
        if len(counting) < self._lines and CAN_REPLACE:
            self._file.replace(counting.__contains__)
            self._offsets.clear()
            for offset, line in self._file.lines():
                self._take(offset, line)

    def _mend(self, offset: int, line: bytes) -> None:
        """Give the last line its end, or cut it off if it was not written to its end."""
        try:
            Line.decode(line)
        except ValueError:
            self._check_torn(line)
            self._file.truncate(offset)
        else:
            self._file.append(b"\n")
            self._take(offset, line)

    def _take(self, offset: int, text: bytes) -> None:
        self._lines += 1
        try:
            line = Line.decode(text)
        except ValueError:
            raise self._no_journal() from None
        if line.job != self._job:
            raise self._file.trouble(
                f"belongs to the job {line.job!r}, not to {self._job!r}: give another file"
            )
        if self._counts(line):
            self._offsets[line.key] = offset
        else:
            self._offsets.pop(line.key, None)

    def _counts(self, line: Line) -> bool:
        if line.state is State.CUT:
            return False
        if self._retry_failed and line.state is State.FAILED and line.failure is not None:
            return not line.failure.safe_to_repeat
        return True

    def _check_torn(self, tail: bytes) -> None:
        """Make sure that what is cut off is half a line of ours, or what a power cut leaves."""
        begin = Line(job=self._job, key=b"", state=State.DONE).encode()
        ours = begin[: begin.index(b'"key":"') + len(b'"key":"')]
        seen = tail.rstrip(b"\0")[: len(ours)]
        if not ours.startswith(seen):
            self._lines += 1
            raise self._no_journal()

    def _no_journal(self) -> JournalError:
        return self._file.trouble(f"is no journal: see its line {self._lines}; give another file")
