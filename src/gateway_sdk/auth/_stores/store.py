"""What a token store is, and the two that need nothing else: in memory and in a private file."""

import hashlib
import json
import math
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from gateway_sdk._checks import check_client_id
from gateway_sdk._files import is_of_another, make_folders, others_may, patiently, replacing
from gateway_sdk._python import NotPickled, safe_repr
from gateway_sdk._url import origin_of, parse_url
from gateway_sdk._waiting import hiding_frames, in_turn
from gateway_sdk.auth.token import Token, text_of
from gateway_sdk.errors import ConfigurationError, GatewayError, TokenRecordError, TokenStoreError

T = TypeVar("T")

_MAX_RECORD: Final = 256 * 1024
"""Bytes: a longer record was not written by this package."""


@dataclass(frozen=True, slots=True)
class TokenKey:
    """What a token is for: it is never sent to another gateway.

    Attributes:
        authorization_url: The authorization endpoint that issued it.
        client_id: The client that it was issued to.
        gateway: The origin of the gateway that it is sent to.
    """

    authorization_url: str
    client_id: str
    gateway: str

    @classmethod
    def of(cls, authorization_url: str, client_id: str, base_url: str) -> "TokenKey":
        """Return the key for a gateway's base URL; ConfigurationError names a wrong argument."""
        parse_url("authorization_url", authorization_url)
        check_client_id(client_id)
        return cls(authorization_url, client_id, origin_of(parse_url("base_url", base_url)))

    @property
    def digest(self) -> str:
        """A name for files and entries: 32 hexadecimal digits."""
        return hashlib.sha256(json.dumps(astuple(self)).encode()).hexdigest()[:32]


class TokenStore(Protocol):
    """Stores one token."""

    @property
    def key(self) -> TokenKey | None:
        """What the token is for; None if not known."""
        ...

    async def load(self) -> Token | None:
        """Return the token; None if there is none.

        TokenStoreError: the store cannot be reached, is locked or not private, or has an invalid
        record.
        """
        ...

    async def save(self, token: Token) -> None:
        """Replace the stored token; after a TokenStoreError the previous one is still stored."""
        ...

    async def delete(self) -> None:
        """Delete the token, if there is one; TokenStoreError if the store cannot be reached."""
        ...


def keyed(key: object) -> TokenKey:
    if not isinstance(key, TokenKey):
        raise ConfigurationError("must be a TokenKey, as TokenKey.of makes it", setting="key")
    return key


def dump(token: Token, key: TokenKey) -> bytes:
    record = {
        "access_token": text_of(token),
        "expires_at": token.expires_at,
        "obtained_at": token.obtained_at,
        "scope": sorted(token.scope),
        **asdict(key),
    }
    written = json.dumps(record).encode()
    if len(written) > _MAX_RECORD:
        raise TokenStoreError(f"the access token is longer than {_MAX_RECORD} bytes")
    return written


def load(record: bytes | str | None, key: TokenKey, place: str) -> Token | None:
    if record is None:
        return None
    try:
        given: Any = json.loads(record)
        if asdict(key).items() <= given.items():
            times = {name: given[name] for name in ("expires_at", "obtained_at")}
            return Token(given["access_token"], scope=given["scope"], **times)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise TokenRecordError(f"{place} has no valid token for {key.gateway}: log in again")


class MemoryStore(NotPickled):
    """Stores a token in this process only."""

    def __init__(self, key: TokenKey | None = None) -> None:
        self.key = None if key is None else keyed(key)
        self._token: Token | None = None

    async def load(self) -> Token | None:
        """Return the token; None if there is none."""
        return self._token

    async def save(self, token: Token) -> None:
        """Replace the stored token."""
        self._token = token

    async def delete(self) -> None:
        """Delete the token."""
        self._token = None


_FILES: Final = "gateway_sdk-file"  # the name of the threads

# No symbolic link is followed; without O_NONBLOCK the opening of a pipe would wait.
_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)

_WRITTEN_IN: Final = 60.0
"""Seconds: the draft of a process that was killed is older."""


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
        from platformdirs import user_state_path  # noqa: PLC0415 - other stores do not need it

        self.key = keyed(key)
        try:
            chosen = folder or user_state_path("gateway-sdk", appauthor=False) / "tokens"
            self.path: Path = Path(chosen).expanduser() / f"{key.digest}.json"
        except RuntimeError:
            raise ConfigurationError(
                "there is no home folder to store tokens in: set HOME, or set a folder, as in "
                "GATEWAY_TOKEN_STORE=file:/absolute/folder"
            ) from None

    @hiding_frames(GatewayError)
    async def load(self) -> Token | None:
        """Return the token; None if there is no file."""
        record = await self._work("read", self._read)
        return load(record, self.key, f"the file {self.path}")

    @hiding_frames(GatewayError)
    async def save(self, token: Token) -> None:
        """Replace the file."""
        record = dump(token, self.key)
        await self._work("written", partial(self._write, record), record)

    @hiding_frames(GatewayError)
    async def delete(self) -> None:
        """Remove the file, if there is one."""
        await self._work("removed", self._remove)

    async def _work(self, what: str, work: Callable[[], T], record: bytes = b"") -> T:
        try:
            return await in_turn(_FILES, self.path, (what, record), work)
        except OSError as error:
            problem = f"cannot be {what}: {error.strerror}"
            raise TokenStoreError(f"the file {self.path} {problem}") from None

    def _read(self) -> bytes | None:
        try:
            descriptor = patiently(lambda: os.open(self.path, _READ))
        except FileNotFoundError:
            return None
        try:
            _check_folder(self.path.parent)
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise TokenStoreError(f"{self.path} is not an ordinary file")
            if is_of_another(status):
                raise TokenStoreError(f"the file {self.path} belongs to another user")
            if others_may(stat.S_IRWXO, status):
                mode = stat.S_IMODE(status.st_mode)
                raise TokenRecordError(
                    f"the file {self.path} is accessible to other users (mode {mode:04o}): its "
                    "token may be known; log in again"
                )
            return os.read(descriptor, _MAX_RECORD)
        finally:
            os.close(descriptor)

    def _write(self, record: bytes) -> None:
        _prepare_folder(self.path.parent)
        self._remove_drafts(time.time() - _WRITTEN_IN)
        # Somebody who logs out may remove the draft.
        patiently(partial(self._replace, record), FileNotFoundError)

    def _replace(self, record: bytes) -> None:
        with replacing(self.path, 0o600) as file:
            if others_may(stat.S_IRWXO, os.fstat(file.fileno())):  # such as a share's
                raise TokenStoreError(
                    f"in the folder {self.path.parent}, other users could read the token: its file "
                    "system has no private files; choose another one"
                )
            file.write(record)

    def _remove(self) -> None:
        if self.path.parent.exists():
            _check_folder(self.path.parent)
        self._remove_drafts(math.inf)
        patiently(lambda: self.path.unlink(missing_ok=True))

    def _remove_drafts(self, before: float) -> None:
        """Remove drafts that were written before a time, in seconds since 1970."""
        # A process that was killed while it wrote leaves one. Who still writes, writes another.
        for draft in self.path.parent.glob(f".{self.path.name}.*"):
            with suppress(FileNotFoundError):
                if draft.lstat().st_mtime < before:
                    patiently(draft.unlink)

    @safe_repr
    def __repr__(self) -> str:
        return f"<PrivateFileStore {self.path}>"


async def prepare_folder_of(path: Path) -> None:
    """Create the folder of a file, if it is missing; TokenStoreError if others can write to it."""
    await in_turn(_FILES, path, "prepared", partial(_prepare_folder, path.parent))


def _prepare_folder(folder: Path) -> None:
    """Create a folder if it is missing; raise TokenStoreError if others can write to it."""
    make_folders(folder)
    _check_folder(folder)


def _check_folder(folder: Path) -> None:
    status, problem = folder.stat(), None
    if is_of_another(status):
        problem = "belongs to another user"
    elif others_may(stat.S_IWOTH, status):
        problem = "can be written by others"
    if problem:
        raise TokenStoreError(
            f"the folder {folder} {problem}: choose one that only you can write, such as a new "
            "folder in it"
        )
