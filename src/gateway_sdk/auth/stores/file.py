"""A token in a file that nobody else on this machine can read."""

import asyncio
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway_sdk._repr import safe_repr
from gateway_sdk.auth.stores.base import MAX_RECORD, TokenKey, UnusableRecordError, dump, parse
from gateway_sdk.auth.token import Token
from gateway_sdk.errors import ConfigurationError, TokenStoreError

_HAS_MODES: Final = hasattr(os, "getuid")
"""Windows has none: there a profile's folders are its owner's by their access lists."""

# Not followed, so that a link cannot lead us elsewhere; not waited for, as opening a pipe would.
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class PrivateFileStore:
    """Keeps a token in a file of its own, mode 0600; the default store.

    A file is replaced as a whole: who reads it meanwhile gets the old token or the new one, and
    if writing fails the old one stays.
    """

    def __init__(self, key: TokenKey, folder: str | Path | None = None) -> None:
        """Choose the place; nothing is read or made.

        Args:
            key: What the token is for; the file's name follows from it.
            folder: Where the file is; the user's folder for a program's state, if left out. It is
                made with mode 0700.

        Raises:
            ConfigurationError: this user has no home folder.
        """
        self.key = key
        try:
            self.path = Path(folder or default_folder()).expanduser() / f"{key.digest}.json"
        except RuntimeError:
            raise ConfigurationError(
                "there is no home folder to keep tokens in: set HOME, or give a folder, as in "
                "GATEWAY_TOKEN_STORE=file:/absolute/folder"
            ) from None

    async def load(self) -> Token | None:
        """Return the token; None if there is no file.

        Raises:
            TokenStoreError: the file is broken, open to others, or not an ordinary one of ours.
        """
        return await asyncio.to_thread(self._load)

    async def save(self, token: Token) -> None:
        """Write a token in place of the one before.

        Raises:
            TokenStoreError: that is not possible; the file from before is as it was.
        """
        await asyncio.to_thread(self._save, token)

    async def delete(self) -> None:
        """Remove the file, if there is one.

        Raises:
            TokenStoreError: that is not possible.
        """
        await asyncio.to_thread(self._delete)

    def _load(self) -> Token | None:
        try:
            descriptor = os.open(self.path, _READ)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._trouble("cannot be read", error) from None
        try:
            self._check(os.fstat(descriptor))
            # Only now, because a folder cannot be made a file object of.
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                record = file.read(MAX_RECORD)
        except OSError as error:
            raise self._trouble("cannot be read", error) from None
        finally:
            os.close(descriptor)
        return parse(record, self.key, f"the file {self.path}")

    def _check(self, status: os.stat_result) -> None:
        """Refuse a file that others may have written, or can read."""
        if not stat.S_ISREG(status.st_mode):
            raise TokenStoreError(f"{self.path} is no ordinary file")
        if not _HAS_MODES:
            return
        if status.st_uid != os.getuid():
            raise TokenStoreError(f"the file {self.path} belongs to another user")
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            mode = stat.S_IMODE(status.st_mode)
            raise UnusableRecordError(
                f"the file {self.path} is open to others (mode {mode:04o}): its token may be "
                "known; log in again"
            )

    def _save(self, token: Token) -> None:
        # Beside the file, because it can be moved over it only within one file system.
        draft = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}")
        try:
            _make_private_folder(self.path.parent)
            self._check_folder()
            _write(draft, dump(token, self.key))
            draft.replace(self.path)
            _sync(self.path.parent)
        except OSError as error:
            raise self._trouble("cannot be written", error) from None
        finally:
            with suppress(OSError):  # it is there only if something went wrong
                draft.unlink()

    def _check_folder(self) -> None:
        """Refuse a folder in which others could put files of theirs."""
        if not _HAS_MODES:
            return
        status = self.path.parent.stat()
        problem = "can be written by others" if status.st_mode & _OTHERS_WRITE else None
        if status.st_uid != os.getuid():
            problem = "belongs to another user"
        if problem:
            raise TokenStoreError(
                f"the folder {self.path.parent} {problem}: choose one that is yours alone, such as "
                "a new folder in it"
            )

    def _delete(self) -> None:
        try:
            # Also what a process left that was killed while it wrote.
            for draft in self.path.parent.glob(f".{self.path.name}.*"):
                draft.unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise self._trouble("cannot be removed", error) from None

    def _trouble(self, what: str, error: OSError) -> TokenStoreError:
        return TokenStoreError(f"the file {self.path} {what}: {error.strerror}")

    @safe_repr
    def __repr__(self) -> str:
        return f"<PrivateFileStore {self.path}>"


def default_folder() -> Path:
    """Return this user's folder for the state of programs, and ours in it."""
    # Imported here, because only the default needs it.
    from platformdirs import user_state_path  # noqa: PLC0415

    return user_state_path("gateway-sdk", appauthor=False) / "tokens"


def _make_private_folder(folder: Path) -> None:
    """Make a folder and what is missing above it, each with mode 0700 from the start.

    `Path.mkdir(parents=True)` would leave the upper ones to the umask.
    """
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)


def _write(path: Path, content: bytes) -> None:
    """Write a new file, down to the disk."""
    with os.fdopen(os.open(path, _CREATE, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Write a folder's names down to the disk, where folders can be opened."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
