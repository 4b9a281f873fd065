"""Saving a token while other processes log out."""

import os
import time
from pathlib import Path

import pytest

from gateway_sdk import TokenStoreError
from gateway_sdk.auth import PrivateFileStore
from tests.support.file_store import names_in
from tests.support.logins import KEY, make_token


@pytest.fixture
def store(tmp_path: Path) -> PrivateFileStore:
    """Provide a store in a folder that does not exist yet."""
    return PrivateFileStore(KEY, tmp_path / "tokens")


@pytest.mark.parametrize("logouts", [1, 9, 10])
async def test_a_draft_that_a_logout_removes_is_written_again(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch, logouts: int
) -> None:
    """A logout at the same time costs a draft, not the token; saving ends after ten drafts."""
    left, real = [None] * logouts, os.fsync

    def log_out_and_sync(descriptor: int) -> None:
        if left:
            left.pop()
            PrivateFileStore(KEY, store.path.parent)._delete()
        real(descriptor)

    monkeypatch.setattr(os, "fsync", log_out_and_sync)
    if logouts < 10:
        await store.save(token := make_token("kept"))
        assert await store.load() == token
    else:
        with pytest.raises(TokenStoreError, match="cannot be written: No such file"):
            await store.save(make_token("lost"))

    assert left == []
    assert names_in(store.path.parent) == [store.path.name] * (logouts < 10)


async def test_a_save_removes_drafts_of_killed_processes(store: PrivateFileStore) -> None:
    """They are older than a minute; a younger one may be about to take the file's place."""
    await store.save(make_token("first"))
    drafts = [store.path.with_name(f".{store.path.name}.{age}") for age in (30, 90)]
    for draft, age in zip(drafts, (30, 90), strict=True):
        draft.write_bytes(b"draft")
        os.utime(draft, (0, time.time() - age))
    other = store.path.with_name(".other.json.90")
    other.write_bytes(b"of another key")
    os.utime(other, (0, 0))

    await store.save(make_token("second"))

    assert names_in(store.path.parent) == sorted([drafts[0].name, other.name, store.path.name])


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
