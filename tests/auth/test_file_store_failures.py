import errno
import io
import logging
import os
from pathlib import Path

import pytest

from gateway_sdk import TokenStoreError
from gateway_sdk.auth import PrivateFileStore, SharedTokenSource
from tests.support.file_store import failure, names_in, refusal
from tests.support.logins import KEY, Person, make_token
from tests.support.secrecy import CANARY, logged


@pytest.fixture
def store(tmp_path: Path) -> PrivateFileStore:
    """Provide a store in a folder that does not exist yet."""
    return PrivateFileStore(KEY, tmp_path / "state" / "tokens")


async def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    """Every operation names the folder that cannot be created, and the reason."""
    (tmp_path / "file").write_bytes(b"")
    store = PrivateFileStore(KEY, tmp_path / "file" / "tokens")

    assert "cannot be read: Not a directory" in await refusal(store)
    assert "cannot be written: " in await failure(store)
    with pytest.raises(TokenStoreError, match="cannot be removed: Not a directory"):
        await store.delete()


async def test_a_folder_in_place_of_the_file_is_an_error(store: PrivateFileStore) -> None:
    """It is neither replaced nor removed."""
    store.path.mkdir(parents=True, mode=0o700)
    store.path.parent.chmod(0o700)

    assert "cannot be written: Is a directory" in await failure(store)
    with pytest.raises(TokenStoreError, match="cannot be removed"):
        await store.delete()
    assert names_in(store.path.parent) == [store.path.name]


async def test_a_file_that_fails_while_it_is_read_is_an_error(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the disk is in the message."""

    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    await store.save(make_token("kept"))
    monkeypatch.setattr(os, "fdopen", lambda *_, **__: Failing())

    assert "cannot be read: Input/output error" in await refusal(store)


@pytest.mark.parametrize(("owner", "step"), [(os, "open"), (os, "fsync"), (Path, "replace")])
async def test_the_old_token_stays_if_writing_fails(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch, owner: object, step: str
) -> None:
    """Each step may fail: the error gives the reason, the old token stays, and no draft is left."""

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    await store.save(old := make_token("old"))
    with monkeypatch.context() as broken:
        broken.setattr(owner, step, fail)
        assert "cannot be written: No space left on device" in await failure(store)

    assert await store.load() == old
    assert names_in(store.path.parent) == [store.path.name]


async def test_a_folder_that_cannot_be_flushed_is_no_error(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the file was replaced the token is stored, even if the folder cannot be synced."""
    real = os.open

    def no_folders(path: Path, flags: int, mode: int = 0o777) -> int:
        if path == store.path.parent:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", no_folders)
    await store.save(token := make_token("kept"))

    assert await store.load() == token


async def test_a_store_that_cannot_write_still_serves_the_login(
    store: PrivateFileStore, caplog: pytest.LogCaptureFixture
) -> None:
    """The source that got a token uses it, and warns with the path and the reason."""
    store.path.parent.mkdir(parents=True)
    store.path.parent.chmod(0o777)
    source = SharedTokenSource(store, Person())

    token = await source.token()

    assert await source.token() is token
    (warning,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert f"the folder {store.path.parent} can be written by others" in warning.getMessage()
    assert CANARY not in logged(caplog.records)
