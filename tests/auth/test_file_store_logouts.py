"""Saving a token while other processes log out."""

import fcntl
import os
from pathlib import Path

import pytest

from gateway_sdk import TokenStoreError
from gateway_sdk.auth import PrivateFileStore
from gateway_sdk.auth.stores import _file
from tests.support.file_store import names_in
from tests.support.logins import KEY, make_token


@pytest.fixture
def store(tmp_path: Path) -> PrivateFileStore:
    """Provide a store in a folder that does not exist yet."""
    return PrivateFileStore(KEY, tmp_path / "tokens")


def drafts_of(store: PrivateFileStore) -> list[Path]:
    return [path for path in store.path.parent.iterdir() if path != store.path]


async def test_a_logout_leaves_a_draft_that_is_being_written(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saving succeeds with its first draft while another process logs out."""
    real, logouts = os.fsync, 0

    def log_out_and_sync(descriptor: int) -> None:
        nonlocal logouts
        logouts += 1
        PrivateFileStore(KEY, store.path.parent)._delete()
        monkeypatch.setattr(os, "fsync", real)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", log_out_and_sync)
    await store.save(token := make_token("kept"))

    assert await store.load() == token
    assert names_in(store.path.parent) == [store.path.name]
    assert logouts == 1


async def test_a_draft_that_is_removed_before_it_is_locked_is_written_again(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A logout between the creation of a draft and its lock costs a draft, not the token."""
    real, removed = fcntl.flock, 0

    def remove_and_lock(descriptor: int, how: int) -> None:
        nonlocal removed
        for draft in drafts_of(store) if removed < 3 else []:
            draft.unlink()
            removed += 1
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", remove_and_lock)
    await store.save(token := make_token("kept"))

    assert removed == 3
    assert await store.load() == token


async def test_a_folder_in_which_each_draft_vanishes_is_an_error(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saving ends after a limited number of drafts."""

    def remove(descriptor: int, how: int) -> None:
        for draft in drafts_of(store):
            draft.unlink()

    monkeypatch.setattr(fcntl, "flock", remove)

    with pytest.raises(TokenStoreError, match="cannot be written: No such file"):
        await store.save(make_token("lost"))


@pytest.mark.parametrize("kind", ["no module", "no locks in the file system"])
async def test_tokens_are_stored_without_file_locks(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Without locks a token is saved, loaded and deleted."""

    def no_locks(descriptor: int, how: int) -> None:
        raise OSError(95, "Operation not supported")

    if kind == "no module":
        monkeypatch.setattr(_file, "_fcntl", None)
    else:
        monkeypatch.setattr(fcntl, "flock", no_locks)

    await store.save(token := make_token("kept"))
    assert await store.load() == token
    store.path.with_name(f".{store.path.name}.0123").write_bytes(b"left")
    await store.delete()
    assert names_in(store.path.parent) == []


async def test_a_link_in_place_of_a_draft_is_removed_and_not_followed(
    store: PrivateFileStore, tmp_path: Path
) -> None:
    """Deleting changes no file outside the folder."""
    await store.save(make_token("kept"))
    (elsewhere := tmp_path / "elsewhere").write_bytes(b"other")
    store.path.with_name(f".{store.path.name}.link").symlink_to(elsewhere)

    await store.delete()

    assert names_in(store.path.parent) == []
    assert elsewhere.read_bytes() == b"other"
