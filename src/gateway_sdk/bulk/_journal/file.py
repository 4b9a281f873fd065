"""The file of the journal: complete lines, one writer, synced to the disk in batches."""

import asyncio
import errno
import importlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gateway_sdk.errors import JournalError

WINDOWS: Final = os.name == "nt"
SYNC_LINES: Final = 256
"""A sync starts after this number of lines; a power cut can lose what was not synced."""
CHANGED: Final = "was changed by others during the run"
SYNC_SECONDS: Final = 1.0

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
# A link that another user may have put there is not followed.
_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
TAKEN: Final = frozenset({errno.EACCES, errno.EAGAIN, errno.EDEADLK})
"""What the systems say of a lock that another run holds."""
_PIECE: Final = 2**16
_FAR: Final = 2**40
"""Windows locks a byte at this offset, far beyond the end of the file."""


def sync_folder(folder: Path | str) -> None:
    """Without it, a power cut may lose the name of a new file, and so the file."""
    if WINDOWS:  # it cannot open a folder, and writes names by itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(descriptor: int) -> None:
    """Lock a file until it is closed or the process ends; if it is locked, errno is in `TAKEN`."""
    if WINDOWS:
        # Imported by name, because each module exists only on its own system.
        windows: Any = importlib.import_module("msvcrt")
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        windows.locking(descriptor, windows.LK_NBLCK, 1)
        return
    posix: Any = importlib.import_module("fcntl")
    posix.flock(descriptor, posix.LOCK_EX | posix.LOCK_NB)


class JournalFile:
    def __init__(self, path: Path, flags: int = _FLAGS) -> None:
        self.path = path
        self._flags = flags
        self.size = 0  # bytes in complete lines
        self.descriptor = -1  # closed
        self._failure: JournalError | None = None
        self._unsynced = 0
        self._synced = 0
        self._must_sync_name = self._name_is_synced = False
        self._synced_at = time.monotonic()
        self._syncing: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        return self.descriptor >= 0

    def open(self) -> None:
        while not self.is_open:
            try:
                descriptor = os.open(self.path, self._flags, 0o600)
            except OSError as error:
                raise self.error(f"cannot be opened: {error.strerror}") from None
            try:
                self.descriptor = self._lock(descriptor)
            finally:
                if not self.is_open:
                    os.close(descriptor)
        self.size = os.fstat(self.descriptor).st_size

    def _lock(self, descriptor: int) -> int:
        """Lock a file, and return it if the path still leads to it; -1 if it was replaced."""
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise self.error("is not an ordinary file")
        try:
            lock(descriptor)
        except OSError as error:
            if error.errno not in TAKEN:
                raise self.error(f"cannot be locked: {error.strerror}") from None
            raise self.error(
                "is in use by another run: wait for its end; if it is a run of this program whose"
                " loop you left early, use contextlib.aclosing there"
            ) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(status, self.path.stat()):
                return descriptor
        return -1

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the offset and the bytes of each line; the last may lack its end. Blocks."""
        with os.fdopen(os.dup(self.descriptor), "rb") as file:
            file.seek(0)
            offset = 0
            for line in file:
                yield offset, line
                offset += len(line)

    def read(self, offset: int) -> bytes:
        os.lseek(self.descriptor, offset, os.SEEK_SET)
        pieces: list[bytes] = []
        while True:
            piece = os.read(self.descriptor, _PIECE)
            head, end, _ = piece.partition(b"\n")
            pieces.append(head)
            if end or not piece:
                return b"".join(pieces)

    def truncate(self, size: int) -> None:
        os.ftruncate(self.descriptor, size)
        self.size = size

    @property
    def damaged_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.damaged")

    def keep_damaged(self, texts: Iterable[bytes]) -> None:
        """Add damaged lines to the file at `damaged_path`; blocks."""
        with os.fdopen(os.open(self.damaged_path, _FLAGS | _NO_LINK, 0o600), "ab") as file:
            for text in texts:
                file.write(text if text.endswith(b"\n") else text + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def replace(self, lines: Iterable[bytes]) -> None:
        """Replace all lines of the file, completely or not at all. Blocks; not on Windows."""
        draft = JournalFile(self.path.with_name(f"{self.path.name}.new"), _FLAGS | _NO_LINK)
        draft.open()  # locked before it replaces this file, so that no other run can take it
        try:
            self._write_to(draft, lines)
        except BaseException:
            draft.path.unlink()
            os.close(draft.descriptor)
            raise
        os.close(self.descriptor)
        self.descriptor, self.size = draft.descriptor, draft.size

    def _write_to(self, draft: "JournalFile", lines: Iterable[bytes]) -> None:
        os.fchmod(draft.descriptor, stat.S_IMODE(os.fstat(self.descriptor).st_mode))
        draft.truncate(0)
        for line in lines:
            draft.append(line)
        os.fsync(draft.descriptor)
        draft.path.replace(self.path)

    def append(self, line: bytes) -> int:
        if self._failure is not None:
            raise self._failure
        try:
            written, why = os.write(self.descriptor, line), "the disk took a part of a line only"
        except OSError as error:
            written, why = 0, str(error.strerror)
        if written != len(line):
            with suppress(OSError):  # if this fails, the next run removes the half line
                if os.fstat(self.descriptor).st_size == self.size + written:  # no bytes of others
                    os.ftruncate(self.descriptor, self.size)
            self._failure = self.error(
                f"cannot be written: {why}; the lines before are complete, so run the same again"
            )
            raise self._failure
        begins = self.size
        self.size += written
        self._unsynced += 1
        return begins

    def sync_soon(self) -> None:
        due = time.monotonic() - self._synced_at >= SYNC_SECONDS
        if due or self._unsynced >= SYNC_LINES:
            self._begin_sync()

    async def wait_until_synced(self, offset: int) -> None:
        """Wait until the line at this offset is on the disk; several waits share one sync."""
        self._must_sync_name = True
        while self._synced <= offset:
            if self._failure is not None:
                raise self._failure
            await asyncio.wait([self._begin_sync()])

    def _begin_sync(self) -> asyncio.Task[None]:
        if self._syncing is None or self._syncing.done():
            self._syncing = asyncio.create_task(self._sync())
        return self._syncing

    async def _sync(self) -> None:
        """Sync in a thread: it takes milliseconds, or seconds on a busy disk."""
        size, self._unsynced = self.size, 0
        try:
            try:
                await asyncio.to_thread(self._sync_in_thread)
            except RuntimeError:  # no thread can be started
                self._sync_in_thread()
            self._check_place()  # not in the thread: this run must write no line meanwhile
            self._synced = size
        except OSError as error:
            self._failure = self.error(f"cannot be written: {error.strerror}")
        except JournalError as error:
            self._failure = error  # nothing more is written
            if not os.fstat(self.descriptor).st_nlink:
                self._failure = JournalError(f"{error}; {await asyncio.to_thread(self._rescue)}")
        finally:
            self._synced_at = time.monotonic()

    def _sync_in_thread(self) -> None:
        os.fsync(self.descriptor)
        if self._must_sync_name and not self._name_is_synced:
            sync_folder(self.path.parent)
            self._name_is_synced = True

    def _check_place(self) -> None:
        own = os.fstat(self.descriptor)
        try:
            there = self.path.stat()
        except OSError:
            why = "it was renamed" if own.st_nlink else "it was deleted"
        else:
            if os.path.samestat(own, there) and own.st_size == self.size:
                return
            why = "another file is in its place"
            if os.path.samestat(own, there):
                what = "are missing" if own.st_size < self.size else "were added"
                why = f"{abs(own.st_size - self.size)} bytes at its end {what}"
        raise self.error(f"{CHANGED}: {why}")

    def _rescue(self) -> str:
        """Copy a deleted file to a new one, and describe the result; blocks."""
        kept = self.path.with_name(f"{self.path.name}.rescued")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
        try:
            with os.fdopen(os.open(kept, flags, 0o600), "wb") as file:
                # Not through `lines`: the event loop may read, which moves the shared offset.
                at = 0
                while piece := os.pread(self.descriptor, _PIECE, at):
                    at += file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            return f"its lines could not be kept in {kept}: {error.strerror}"
        return f"its lines are kept in {kept}"

    async def aclose(self) -> None:
        if not self.is_open:
            return
        closing = asyncio.create_task(self._close())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            await asyncio.wait([closing])
            raise

    async def _close(self) -> None:
        if self._syncing is not None:
            await asyncio.wait([self._syncing])
        if self._failure is None:
            # A task that an item has left may wait for its line too, and may have begun it. A
            # second one would still use the descriptor when it is closed.
            await asyncio.wait([self._begin_sync()])
        descriptor, self.descriptor = self.descriptor, -1
        os.close(descriptor)
        if self._failure is not None:
            raise self._failure

    def error(self, what: str, *, can_be_repaired: bool = False) -> JournalError:
        return JournalError(f"the journal {self.path} {what}", can_be_repaired=can_be_repaired)
