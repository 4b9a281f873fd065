import os
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway_sdk import TokenStoreError
from gateway_sdk.auth import PrivateFileStore
from tests.support.file_store import failure, mode_of, names_in, refusal
from tests.support.logins import KEY, make_token

ONLY_ROOT = pytest.mark.skipif(
    os.getuid() != 0, reason="not tested, because only root may give files away"
)


@pytest.fixture
def store(tmp_path: Path) -> PrivateFileStore:
    """Provide a store in a folder that does not exist yet."""
    return PrivateFileStore(KEY, tmp_path / "state" / "tokens")


def _replace(path: Path, make: Callable[[Path], object]) -> None:
    elsewhere = path.with_name("elsewhere")
    path.rename(elsewhere)
    make(path)


def link_to_it(path: Path) -> None:
    """Put a link to the same token in place of the file."""
    _replace(path, lambda path: path.symlink_to("elsewhere"))


def dangling_link(path: Path) -> None:
    """Put a dangling link in place of the file."""
    _replace(path, lambda path: path.symlink_to("nowhere"))


def pipe(path: Path) -> None:
    """Put a pipe that has no writer in place of the file."""
    _replace(path, os.mkfifo)


def folder(path: Path) -> None:
    """Put a folder in place of the file."""
    _replace(path, Path.mkdir)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (link_to_it, "cannot be read: Too many levels of symbolic links"),
        (dangling_link, "cannot be read: Too many levels of symbolic links"),
        (pipe, "is not an ordinary file"),
        (folder, "is not an ordinary file"),
        (lambda path: path.chmod(0o644), "is accessible to other users (mode 0644)"),
        (lambda path: path.chmod(0o640), "is accessible to other users (mode 0640)"),
        (lambda path: path.chmod(0o602), "is accessible to other users (mode 0602)"),
        pytest.param(
            lambda path: os.chown(path, 12345, -1), "belongs to another user", marks=ONLY_ROOT
        ),
    ],
)
async def test_a_file_that_others_may_have_made_or_read_is_refused(
    store: PrivateFileStore, spoil: Callable[[Path], None], told: str
) -> None:
    """It is not read, not followed and does not block: the error names it and the reason."""
    await store.save(make_token("kept"))
    descriptors = len(names_in(Path("/dev/fd")))

    spoil(store.path)

    text = await refusal(store)
    assert str(store.path) in text
    assert told in text
    assert len(names_in(Path("/dev/fd"))) == descriptors


@pytest.mark.parametrize("spoil", [link_to_it, dangling_link, pipe])
async def test_another_object_in_place_of_the_file_is_replaced(
    store: PrivateFileStore, spoil: Callable[[Path], None]
) -> None:
    """Saving puts a file there; the target of a link is not changed."""
    await store.save(make_token("kept"))
    spoil(store.path)
    before = store.path.with_name("elsewhere").read_bytes()

    await store.save(token := make_token("new"))

    assert await store.load() == token
    assert store.path.with_name("elsewhere").read_bytes() == before
    assert not store.path.with_name("nowhere").exists()


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
async def test_a_link_in_place_of_the_draft_is_not_followed(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Even a program that guesses the draft's name cannot redirect it."""
    monkeypatch.setattr(secrets, "token_hex", lambda size: "ab" * size)
    await store.save(old := make_token("old"))
    other = store.path.with_name("elsewhere")
    other.write_bytes(b"untouched")
    draft = store.path.with_name(f".{store.path.name}.{'ab' * 8}")
    draft.symlink_to(target)

    assert "cannot be written: File exists" in await failure(store)

    assert await store.load() == old
    assert other.read_bytes() == b"untouched"
    assert not store.path.with_name("nowhere").exists()


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777, 0o720])
async def test_a_folder_that_others_can_write_is_refused(
    store: PrivateFileStore, mode: int
) -> None:
    """No token is stored where other users could replace it."""
    store.path.parent.mkdir(parents=True)
    store.path.parent.chmod(mode)

    assert f"the folder {store.path.parent} can be written by others" in await failure(store)
    assert names_in(store.path.parent) == []


@pytest.mark.parametrize("use", [PrivateFileStore.load, PrivateFileStore.delete])
async def test_a_folder_that_others_can_write_now_is_refused(
    store: PrivateFileStore, use: Callable[[PrivateFileStore], Awaitable[object]]
) -> None:
    """Others could have put an old token there, or could put back what is deleted."""
    await store.save(make_token("kept"))
    store.path.parent.chmod(0o777)

    with pytest.raises(TokenStoreError, match="can be written by others"):
        await use(store)

    assert names_in(store.path.parent) == [store.path.name]


@ONLY_ROOT
async def test_a_folder_of_another_user_is_refused(store: PrivateFileStore) -> None:
    """The owner of the folder could replace the file."""
    store.path.parent.mkdir(parents=True, mode=0o700)
    os.chown(store.path.parent, 12345, -1)

    assert "belongs to another user" in await failure(store)


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o750])
async def test_a_folder_that_others_can_read_is_accepted(
    store: PrivateFileStore, mode: int
) -> None:
    """The mode of the file is enough."""
    store.path.parent.mkdir(parents=True)
    store.path.parent.chmod(mode)

    await store.save(token := make_token("kept"))

    assert await store.load() == token
    assert mode_of(store.path.parent) == mode
