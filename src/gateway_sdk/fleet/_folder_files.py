"""The files of a folder or an object store, each there as a whole or not at all. Blocks."""

# fsspec has no annotations of its own.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import errno
import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from gateway_sdk._extras import needing_extra
from gateway_sdk.bulk._journal.file import sync_folder
from gateway_sdk.errors import ConfigurationError

_OBJECT_STORES: Final = frozenset(
    {"abfs", "abfss", "az", "gcs", "gs", "memory", "oss", "s3", "s3a"}
)
"""Protocols of fsspec under which a file that is being written cannot be seen."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_LASTING: Final = frozenset(
    {*_FULL, errno.EFBIG, errno.EROFS, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP}
)
_NO_HARD_LINKS: Final = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
)
"""What systems say of a link on a disk that has none, such as FAT."""

_DRAFT: Final = ".draft-"


def is_outage(error: Exception) -> bool:
    """Tell whether an error may go away without anything being done."""
    if isinstance(error, FileNotFoundError | FileExistsError | PermissionError):
        return False
    if isinstance(error, NotADirectoryError | IsADirectoryError):
        return False
    if isinstance(error, OSError):
        return error.errno not in _LASTING
    # What the libraries of object stores raise: "EndpointConnectionError", "ReadTimeoutError".
    name = type(error).__name__
    return any(word in name for word in ("Connect", "Timeout", "Disconnected"))


def why(error: Exception) -> str:
    """Say what is wrong and what helps; without the text of the error, which may show a secret."""
    if isinstance(error, PermissionError):
        return "it refuses access: check the permissions of its files, or the credentials"
    if isinstance(error, FileNotFoundError):
        return "it does not exist: make the bucket or mount the folder"
    if isinstance(error, OSError) and error.errno in _FULL:
        return "it is full: make room; what is stored stays"
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return "a file is too large for it, or for the limit of this process (ulimit -f)"
    return f"it cannot be used ({type(error).__name__})"


def open_files(address: str, options: dict[str, Any]) -> "Files":
    with needing_extra("fleet", "a FolderStore"):
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]  # noqa: PLC0415
    try:
        system, root = url_to_fs(address, **options)
    except ImportError as error:
        raise ConfigurationError(f"the store needs another package: {error}") from None
    except ValueError:
        protocol = address.partition("://")[0]
        raise ConfigurationError(f"fsspec does not know addresses of {protocol}://") from None
    protocols = {system.protocol} if isinstance(system.protocol, str) else set(system.protocol)
    if "file" in protocols:
        return LocalFiles(root)
    return RemoteFiles(system, root, is_atomic=bool(protocols & _OBJECT_STORES))


class Files(Protocol):
    """Files by their path below a root, with "/" between names."""

    def read(self, path: str) -> bytes | None: ...

    def exists(self, path: str) -> bool: ...

    def write(self, path: str, data: bytes, *, lasts: bool = True) -> None:
        """Write a file, or replace it; unless it *lasts*, a crash of the machine may lose it."""
        ...

    def create(self, path: str, data: bytes) -> None:
        """Write a file, unless there is one."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; empty if there is no such folder."""
        ...

    def stamp(self, path: str) -> object:
        """Return what changes when a file is replaced; None if it is gone."""
        ...

    def remove(self, path: str) -> None: ...


class LocalFiles(Files):
    """Files of this machine, or of a network that looks like it."""

    # Without `Path`, which would double the CPU time of looking for a file that is not there.

    def __init__(self, root: str) -> None:
        self._root = root

    def read(self, path: str) -> bytes | None:
        try:
            with open(f"{self._root}/{path}", "rb", buffering=0) as file:  # noqa: PTH123
                return file.read()
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        return os.path.exists(f"{self._root}/{path}")  # noqa: PTH110

    def write(self, path: str, data: bytes, *, lasts: bool = True) -> None:
        """Write another file, and rename it; before and after this it is synced if it *lasts*."""
        try:
            self._write(path, data, lasts=lasts)
        except FileNotFoundError:  # another process has just deleted the folder
            self._write(path, data, lasts=lasts)

    def _write(self, path: str, data: bytes, *, lasts: bool) -> None:
        folder, draft = self._draft(path, data, lasts=lasts)
        try:
            os.replace(draft, f"{self._root}/{path}")  # noqa: PTH105
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        if lasts:
            sync_folder(folder)

    def create(self, path: str, data: bytes) -> None:
        """Write another file, and give it this name too, which fails if it is taken."""
        folder, draft = self._draft(path, data, lasts=True)
        place = f"{self._root}/{path}"
        try:
            os.link(draft, place)
        except FileExistsError:
            pass
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            # Two processes that do so at the same moment may replace each other's file.
            if self.stamp(path) is None:
                os.replace(draft, place)  # noqa: PTH105
        finally:
            Path(draft).unlink(missing_ok=True)
        sync_folder(folder)

    def _draft(self, path: str, data: bytes, *, lasts: bool) -> tuple[str, str]:
        """Write a file beside the place of another; return their folder and its path."""
        folder = f"{self._root}/{path}".rpartition("/")[0]
        draft = f"{folder}/{_DRAFT}{uuid.uuid4().hex}"
        try:
            file = open(draft, "xb", buffering=0)  # noqa: PTH123, SIM115
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            file = open(draft, "xb", buffering=0)  # noqa: PTH123, SIM115
        try:
            with file:
                left = memoryview(data)
                while left:  # a disk that gets full takes a part first
                    left = left[file.write(left) :]
                if lasts:
                    os.fsync(file.fileno())
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        return folder, draft

    def names(self, folder: str) -> list[str]:
        try:
            return _sorted(os.listdir(f"{self._root}/{folder}"))  # noqa: PTH208 - 100 000 of them
        except FileNotFoundError:
            return []

    def stamp(self, path: str) -> object:
        try:
            status = os.stat(f"{self._root}/{path}")  # noqa: PTH116
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_mtime_ns

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with everything in it; of a link, the link alone."""
        place = Path(self._root, path)
        if place.is_symlink() or not place.is_dir():
            place.unlink(missing_ok=True)
            return
        with suppress(FileNotFoundError):  # another process deletes it too
            for name in os.listdir(place):  # noqa: PTH208 - drafts too
                self.remove(f"{path}/{name}")
        with suppress(OSError):  # another process may be writing into it
            place.rmdir()


class RemoteFiles(Files):
    """Files of any other file system of fsspec."""

    def __init__(self, system: Any, root: str, *, is_atomic: bool) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self._is_atomic = is_atomic  # whether a file that is being written cannot be seen

    def _at(self, path: str) -> str:
        # What other workers wrote is not in the listings that this process has seen.
        self._system.invalidate_cache()
        return f"{self._root}/{path}"

    def read(self, path: str) -> bytes | None:
        try:
            return bytes(self._system.cat_file(self._at(path)))
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._at(path)))

    def write(self, path: str, data: bytes, *, lasts: bool = True) -> None:
        del lasts  # the file system decides that
        place = self._at(path)
        if self._is_atomic:
            self._system.pipe_file(place, data)
            return
        folder = place.rpartition("/")[0]
        self._system.makedirs(folder, exist_ok=True)
        draft = f"{folder}/{_DRAFT}{uuid.uuid4().hex}"
        try:
            self._system.pipe_file(draft, data)
            self._system.mv(draft, place)
        except BaseException:
            with suppress(Exception):  # the error above says more
                self._system.rm_file(draft)
            raise

    def create(self, path: str, data: bytes) -> None:
        if self.stamp(path) is not None:  # `exists` of fsspec says no after any error
            return
        if not self._is_atomic:  # at the same moment, two may replace each other's file
            self.write(path, data)
            return
        with suppress(FileExistsError):
            self._system.pipe_file(self._at(path), data, mode="create")

    def names(self, folder: str) -> list[str]:
        try:
            paths = self._system.ls(self._at(folder), detail=False)
        except FileNotFoundError:
            return []
        return _sorted(path.rstrip("/").rpartition("/")[2] for path in paths)

    def stamp(self, path: str) -> object:
        try:
            info = self._system.info(self._at(path))
        except FileNotFoundError:
            return None
        return repr(sorted((name, str(value)) for name, value in info.items()))

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            self._system.rm(self._at(path), recursive=True)


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name and not name.startswith(_DRAFT))
