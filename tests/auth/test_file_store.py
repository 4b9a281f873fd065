import json
import os
import pickle
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_sdk.auth import PrivateFileStore, SharedTokenSource
from gateway_sdk.auth.stores import _file as file_store
from tests.support.file_store import mode_of, names_in, refusal
from tests.support.logins import KEY, Person, make_token
from tests.support.records import GOOD, IN_A_STORE


@pytest.fixture
def store(tmp_path: Path) -> PrivateFileStore:
    """Provide a store in a folder that does not exist yet."""
    return PrivateFileStore(KEY, tmp_path / "state" / "tokens")


@pytest.fixture
def no_umask() -> Iterator[None]:
    """Set the umask to 0, so that only the program's own modes protect files."""
    before = os.umask(0)
    yield
    os.umask(before)


async def test_a_file_keeps_the_last_token(store: PrivateFileStore) -> None:
    """At first there is no token; then it is the last one saved, until it is deleted."""
    assert await store.load() is None
    await store.delete()

    for name in ("first", "second"):
        await store.save(token := make_token(name, expires_at=4e9))
        assert await store.load() == token
        assert names_in(store.path.parent) == [store.path.name]
    await store.delete()

    assert await store.load() is None
    assert names_in(store.path.parent) == []


async def test_each_key_has_a_file_of_its_own(tmp_path: Path) -> None:
    """Tokens for two gateways are stored beside each other."""
    other_key = type(KEY)(KEY.authorization_url, KEY.client_id, "https://other.test")
    mine, other = PrivateFileStore(KEY, tmp_path), PrivateFileStore(other_key, tmp_path)
    await mine.save(make_token("mine"))
    await other.save(make_token("other"))

    await other.delete()

    assert await mine.load() is not None
    assert await other.load() is None


@pytest.mark.usefixtures("no_umask")
async def test_other_users_cannot_read_it(tmp_path: Path, store: PrivateFileStore) -> None:
    """With any umask, each created folder has mode 0700, and the file has 0600."""
    before = mode_of(tmp_path)

    await store.save(make_token("kept"))

    assert mode_of(store.path) == 0o600
    assert mode_of(tmp_path / "state" / "tokens") == 0o700
    assert mode_of(tmp_path / "state") == 0o700
    assert mode_of(tmp_path) == before


@pytest.mark.usefixtures("no_umask")
async def test_other_users_cannot_read_it_while_it_is_written(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file never has another mode."""
    modes: list[int] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    await store.save(make_token("kept"))

    assert modes == [0o600, 0o700]  # of the file, and then of its folder


@pytest.mark.parametrize("record", IN_A_STORE.values(), ids=IN_A_STORE)
async def test_a_broken_file_is_named_and_not_shown(store: PrivateFileStore, record: bytes) -> None:
    """A record without a valid token for this key is refused; saving another one repairs it."""
    await store.save(make_token("kept"))
    store.path.write_bytes(record)

    assert str(store.path) in await refusal(store)
    await store.save(token := make_token("new"))

    assert await store.load() == token


async def test_a_file_that_is_cut_anywhere_is_broken(store: PrivateFileStore) -> None:
    """No part of a record is accepted as the whole record."""
    await store.save(make_token("kept"))
    record = store.path.read_bytes()

    for length in range(len(record)):
        store.path.write_bytes(record[:length])
        assert "has no valid token" in await refusal(store)


async def test_no_more_than_a_record_is_read(store: PrivateFileStore) -> None:
    """A file that became very large is not read into memory, even if its start is valid."""
    await store.save(make_token("kept"))
    store.path.write_bytes(json.dumps({**GOOD, "more": "x" * 2**20}).encode())
    assert "has no valid token" in await refusal(store)
    with store.path.open("wb") as file:
        file.truncate(2**32)  # a sparse file, which needs no space

    assert "has no valid token" in await refusal(store)


def test_a_store_shows_its_path_and_can_be_pickled(store: PrivateFileStore) -> None:
    """It holds no secret, so it may be sent to another process."""
    copied = pickle.loads(pickle.dumps(store))  # noqa: S301 - ours

    assert repr(copied) == repr(store) == f"<PrivateFileStore {store.path}>"
    assert (copied.key, copied.path) == (store.key, store.path)


def test_making_a_store_does_no_io(tmp_path: Path) -> None:
    """No file is read or created before it is needed."""
    PrivateFileStore(KEY, tmp_path / "state")

    assert names_in(tmp_path) == []


@pytest.mark.parametrize("folder", [None, ""])
def test_by_default_it_is_in_the_folder_for_state(
    folder: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default follows XDG_STATE_HOME, and only this user can read it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    path = PrivateFileStore(KEY, folder).path

    assert path == tmp_path / "gateway-sdk" / "tokens" / f"{KEY.digest}.json"


async def test_a_system_without_file_modes_is_supported(
    store: PrivateFileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows, the folders of a profile are private already, and os.getuid is missing."""
    monkeypatch.setattr(file_store, "_HAS_MODES", False)
    monkeypatch.delattr(os, "getuid")

    await store.save(token := make_token("kept"))
    store.path.chmod(0o644)
    assert await store.load() == token
    store.path.unlink()
    store.path.mkdir()

    assert "is not an ordinary file" in await refusal(store)


async def test_deleting_removes_drafts_of_killed_processes(store: PrivateFileStore) -> None:
    """A draft holds a token too, so it is deleted."""
    await store.save(make_token("kept"))
    draft = store.path.with_name(f".{store.path.name}.0123456789abcdef")
    draft.write_bytes(store.path.read_bytes())

    await store.delete()

    assert list(store.path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "mode"), [(b"{", 0o600), (b"", 0o600), (json.dumps(GOOD).encode(), 0o644)]
)
async def test_a_login_replaces_an_unusable_record(
    store: PrivateFileStore, content: bytes, mode: int
) -> None:
    """Where a user can log in, an invalid or a public file is replaced."""
    await store.save(make_token("old"))
    store.path.write_bytes(content)
    store.path.chmod(mode)
    source = SharedTokenSource(store, person := Person())

    token = await source.token()

    assert person.asked == 1
    assert await store.load() == token
    assert mode_of(store.path) == 0o600
