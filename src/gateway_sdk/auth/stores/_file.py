"""The token store in a private file."""

import math
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Final, TypeVar

from gateway_sdk._python import safe_repr
from gateway_sdk._waiting import in_daemon_thread
from gateway_sdk.auth.stores._base import MAX_RECORD, TokenKey, UnusableRecordError, dump, parse
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import ConfigurationError, TokenStoreError

_HAS_MODES: Final = hasattr(os, "getuid")
"""Windows has no modes: there the access lists of the profile's folders protect them."""

# No symbolic link is followed; without O_NONBLOCK the opening of a pipe would wait.
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH

_WRITTEN_IN: Final = 60.0
"""Seconds: the draft of a process that was killed is older."""

_TRIES: Final = 100
_PAUSE: Final = 0.01
"""Seconds before each further try: other processes read and replace the file in less than all."""

_THREAD: Final = "gateway_sdk-file"

T = TypeVar("T")


class PrivateFileStore:
    """Stores a token in its own file, mode 0600; the default store.

    The file is replaced as a whole: a concurrent reader gets the old token or the new one, and if
    writing fails the old one stays.
    """

    def __init__(self, key: TokenKey, folder: str | Path | None = None) -> None:
        """Set the path; nothing is read or created.

        Args:
            key: What the token is for; the file's name is made from it.
            folder: The file's folder; by default one in the user's folder for program state. It
                is created with mode 0700. ConfigurationError if this user has no home folder.
        """
        self.key = key
        try:
            self.path: Path = Path(folder or default_folder()).expanduser() / f"{key.digest}.json"
        except RuntimeError:
            raise ConfigurationError(
                "there is no home folder to store tokens in: set HOME, or set a folder, as in "
                "GATEWAY_TOKEN_STORE=file:/absolute/folder"
            ) from None

    async def load(self) -> Token | None:
        """Return the token; None if there is no file."""
        return await in_daemon_thread(_THREAD, self._load)

    async def save(self, token: Token) -> None:
        """Replace the file."""
        await in_daemon_thread(_THREAD, partial(self._save, token))

    async def delete(self) -> None:
        """Remove the file, if there is one."""
        await in_daemon_thread(_THREAD, self._delete)

    def _load(self) -> Token | None:
        try:
            descriptor = _patiently(lambda: os.open(self.path, _READ))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._store_error("cannot be read", error) from None
        try:
            _check_folder(self.path.parent)
            self._check(os.fstat(descriptor))
            # Only after the check: fdopen fails for a folder.
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                record = file.read(MAX_RECORD)
        except OSError as error:
            raise self._store_error("cannot be read", error) from None
        finally:
            os.close(descriptor)
        return parse(record, self.key, f"the file {self.path}")

    def _check(self, status: os.stat_result) -> None:
        """Refuse a file that others could have written, or can read."""
        if not stat.S_ISREG(status.st_mode):
            raise TokenStoreError(f"{self.path} is not an ordinary file")
        if not _HAS_MODES:
            return
        if status.st_uid != os.getuid():
            raise TokenStoreError(f"the file {self.path} belongs to another user")
        if status.st_mode & _OTHERS:
            mode = stat.S_IMODE(status.st_mode)
            raise UnusableRecordError(
                f"the file {self.path} is accessible to other users (mode {mode:04o}): its token "
                "may be known; log in again"
            )

    def _save(self, token: Token) -> None:
        record, folder = dump(token, self.key), self.path.parent
        try:
            prepare_folder(folder)
            self._remove_drafts(time.time() - _WRITTEN_IN)
            # In the same folder, because a file can be replaced only within one file system.
            # Not `tempfile`: before 3.12.3 it tries for ever in a folder that Windows protects.
            draft = folder / f".{self.path.name}.{token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            self._replace(os.open(draft, flags, 0o600), draft, record)
        except OSError as error:
            raise self._store_error("cannot be written", error) from None

    def _replace(self, descriptor: int, draft: Path, record: bytes) -> None:
        try:
            with os.fdopen(descriptor, "wb") as file:
                if _HAS_MODES and os.fstat(descriptor).st_mode & _OTHERS:  # such as a share's
                    raise TokenStoreError(
                        f"in the folder {self.path.parent}, other users could read the token: its "
                        "file system has no private files; choose another one"
                    )
                file.write(record)
                file.flush()
                os.fsync(file.fileno())
            _patiently(lambda: draft.replace(self.path))
        finally:
            with suppress(OSError):  # it exists only after an error
                draft.unlink()

    def _delete(self) -> None:
        try:
            if self.path.parent.exists():
                _check_folder(self.path.parent)
            self._remove_drafts(math.inf)
            _patiently(lambda: self.path.unlink(missing_ok=True))
        except OSError as error:
            raise self._store_error("cannot be removed", error) from None

    def _remove_drafts(self, before: float) -> None:
        """Remove drafts that were written before a time, in seconds since 1970."""
        # A process that was killed while it wrote leaves one. Who still writes, writes another.
        for draft in self.path.parent.glob(f".{self.path.name}.*"):
            with suppress(FileNotFoundError):
                if draft.lstat().st_mtime < before:
                    _patiently(draft.unlink)

    def _store_error(self, what: str, error: OSError) -> TokenStoreError:
        return TokenStoreError(f"the file {self.path} {what}: {error.strerror}")

    @safe_repr
    def __repr__(self) -> str:
        return f"<PrivateFileStore {self.path}>"


def default_folder() -> Path:
    from platformdirs import user_state_path  # noqa: PLC0415 - only the default needs it

    return user_state_path("gateway-sdk", appauthor=False) / "tokens"


def prepare_folder(folder: Path) -> None:
    """Create a folder if it is missing; raise TokenStoreError if others can write to it."""
    # `Path.mkdir(parents=True)` would create the parents with the umask's mode.
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    _check_folder(folder)


def _check_folder(folder: Path) -> None:
    if not _HAS_MODES:
        return
    status = folder.stat()
    problem = "can be written by others" if status.st_mode & _OTHERS_WRITE else None
    if status.st_uid != os.getuid():
        problem = "belongs to another user"
    if problem:
        raise TokenStoreError(
            f"the folder {folder} {problem}: choose one that only you can write, such as a new "
            "folder in it"
        )


def _patiently(work: Callable[[], T]) -> T:
    """Do what Windows refuses as long as another process has the file open."""
    for _ in range(0 if _HAS_MODES else _TRIES - 1):
        with suppress(PermissionError):
            return work()
        time.sleep(_PAUSE)
    return work()
