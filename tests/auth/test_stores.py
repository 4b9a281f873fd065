import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from gateway_sdk import ConfigurationError, TokenStoreError
from gateway_sdk.auth import (
    KeyringStore,
    MemoryStore,
    PrivateFileStore,
    RedisStore,
    Token,
    TokenKey,
    open_store,
)
from gateway_sdk.auth.stores._base import MAX_RECORD, dump, parse
from tests.support.logins import KEY, make_token
from tests.support.records import BROKEN, GOOD
from tests.support.secrecy import CANARY, texts_of

TOKENS = {
    "plain": Token(CANARY, obtained_at=1.5),
    "full": Token(CANARY, expires_at=4e9, obtained_at=1e9, scope="b a"),
    "any character": Token("aA0-._~+/==", obtained_at=0),
    "ends at once": Token(CANARY, expires_at=0, obtained_at=0),
    "long": Token("x" * 100_000, obtained_at=1),
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_a_record_holds_all_of_a_token(token: Token) -> None:
    """Reading a record gives an equal token."""
    assert parse(dump(token, KEY), KEY, "the shelf") == token
    assert parse(dump(token, KEY).decode(), KEY, "the shelf") == token


def test_a_record_has_the_key_of_its_token() -> None:
    """The record holds the token and the three parts of the key, and nothing else."""
    record = json.loads(dump(make_token("kept", expires_at=2e9), KEY))

    assert record == {
        "access_token": f"{CANARY}-kept",
        "expires_at": 2_000_000_000.0,
        "obtained_at": 1_999_996_400.0,
        "scope": [],
        "authorization_url": "https://login.test/authorize",
        "client_id": "client-1",
        "gateway": "https://gateway.test",
    }


def test_unknown_fields_of_a_record_are_ignored() -> None:
    """Unknown names are ignored, and a refresh token is not kept."""
    record = json.dumps({**GOOD, "refresh_token": "RT", "version": 2})

    token = parse(record, KEY, "the shelf")

    assert "RT" not in dump(token, KEY).decode()


@pytest.mark.parametrize("record", BROKEN.values(), ids=BROKEN)
def test_a_broken_record_is_an_error_that_does_not_show_it(record: bytes) -> None:
    """A record without a valid token for this key is refused: the error names only the place."""
    with pytest.raises(TokenStoreError) as caught:
        parse(record, KEY, "the shelf")

    told = "the shelf has no valid token for https://gateway.test: log in again"
    assert str(caught.value) == told
    assert CANARY not in texts_of(caught.value)
    assert caught.value.__suppress_context__


@given(st.binary() | st.text())
def test_anything_else_is_a_store_error_too(record: bytes | str) -> None:
    """Any text as a record raises only a store error."""
    with pytest.raises(TokenStoreError):
        parse(record, KEY, "the shelf")


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
    st.sampled_from(sorted(GOOD)),
)
def test_a_record_with_any_value_in_it_is_a_token_or_an_error(value: Any, name: str) -> None:
    """One invalid value in a record raises only a store error."""
    record = json.dumps({**GOOD, name: value})
    try:
        token = parse(record, KEY, "the shelf")
    except TokenStoreError:
        return
    assert name in {"access_token", "expires_at", "obtained_at", "scope"} or value == GOOD[name]
    assert parse(dump(token, KEY), KEY, "the shelf") == token


def test_each_key_has_a_name_of_its_own() -> None:
    """Keys that differ in any part, or in the border between parts, have different digests."""
    keys = [
        KEY,
        TokenKey("https://login.test/authorize2", "client-1", "https://gateway.test"),
        TokenKey("https://login.test/authorize", "client-2", "https://gateway.test"),
        TokenKey("https://login.test/authorize", "client-1", "https://gateway.test:8443"),
        TokenKey("https://login.test/authorizeclient-1", "", "https://gateway.test"),
        TokenKey("https://login.test/authorize", 'client-1", "https://gateway.test', ""),
    ]

    digests = [key.digest for key in keys]

    assert len(set(digests)) == len(keys)
    assert all(len(digest) == 32 and digest.isalnum() for digest in digests)
    assert KEY.digest == TokenKey(KEY.authorization_url, KEY.client_id, KEY.gateway).digest


def test_a_digest_never_changes() -> None:
    """After an update of the package the stored token is found."""
    assert KEY.digest == "87966c78730b321c5edcd81e1c3388e3"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("login.test", "client-1", "https://gateway.test"), "authorization_url"),
        (("{auth_url}", "client-1", "https://gateway.test"), "authorization_url"),
        ((None, "client-1", "https://gateway.test"), "authorization_url"),
        (("https://ada:pw@login.test", "client-1", "https://gateway.test"), "authorization_url"),
        (("https://login.test", "", "https://gateway.test"), "client_id"),
        (("https://login.test", None, "https://gateway.test"), "client_id"),
        (("https://login.test", 7, "https://gateway.test"), "client_id"),
        (("https://login.test", "client-1", "gateway.test"), "base_url"),
        (("https://login.test", "client-1", ""), "base_url"),
        (("https://login.test", "client-1", b"https://gateway.test"), "base_url"),
    ],
)
def test_a_key_needs_valid_urls(arguments: tuple[Any, ...], named: str) -> None:
    """An invalid URL is refused, and named."""
    with pytest.raises(ConfigurationError, match=f"^{named} "):
        TokenKey.of(*arguments)


async def test_a_store_in_memory_keeps_the_last_token() -> None:
    """It stores one token, until it is deleted; deleting nothing is no error."""
    store = MemoryStore(KEY)
    assert await store.load() is None
    await store.delete()

    for name in ("first", "second"):
        await store.save(token := make_token(name))
        assert await store.load() is token
    await store.delete()

    assert await store.load() is None
    assert store.key is KEY


async def test_a_store_in_memory_shows_nothing_and_is_not_pickled() -> None:
    """Its repr shows no token, and it cannot be pickled."""
    store = MemoryStore()
    await store.save(make_token("held"))

    assert repr(store) == "<MemoryStore>"
    for save in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="cannot be pickled"):
            save(store)


@pytest.mark.parametrize("setting", [None, "", "file", "file:"])
def test_the_default_store_is_a_private_file(
    setting: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a setting the token is in this user's folder for program state."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    store = open_store(setting, KEY)

    assert isinstance(store, PrivateFileStore)
    assert store.path == tmp_path / "gateway-sdk" / "tokens" / f"{KEY.digest}.json"
    assert store.key is KEY


@pytest.mark.parametrize("folder", ["/srv/tokens", "/srv/a:b"])
def test_a_file_store_may_have_another_folder(folder: str) -> None:
    """A folder follows "file:", and may contain colons."""
    store = open_store(f"file:{folder}", KEY)

    assert isinstance(store, PrivateFileStore)
    assert store.path == Path(folder) / f"{KEY.digest}.json"


@pytest.mark.parametrize("setting", ["file:tokens", "file:./tokens", "file: "])
def test_a_relative_folder_is_refused(setting: str) -> None:
    """Logins and sessions with other current folders would use different files."""
    with pytest.raises(ConfigurationError, match="an absolute folder"):
        open_store(setting, KEY)


@pytest.mark.parametrize("setting", [None, "file:~nobody-4711/tokens"])
def test_a_missing_home_folder_is_an_error(
    monkeypatch: pytest.MonkeyPatch, setting: str | None
) -> None:
    """A container may have a user without an entry; the error says what to set."""

    def no_home(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)

    with pytest.raises(ConfigurationError, match="set HOME, or set a folder"):
        open_store(setting, KEY)


@pytest.mark.parametrize(
    ("setting", "kind"),
    [
        ("keyring", KeyringStore),
        ("keyring:", KeyringStore),
        ("redis://127.0.0.1", RedisStore),
        ("rediss://redis.test:7000/3", RedisStore),
        ("unix:///run/redis.sock", RedisStore),
    ],
)
def test_a_setting_names_a_store(setting: str, kind: type) -> None:
    """Each kind of store is found by its name or URL, and gets the key."""
    store = open_store(setting, KEY)

    assert type(store) is kind
    assert store.key is KEY


@pytest.mark.parametrize(
    "setting",
    [
        "memory",
        "FILE",
        " file",
        "keyring:login",
        "~/tokens",
        "/srv/tokens",
        "https://redis.test",
        f"redis.test:6379:{CANARY}",
        f"ada:{CANARY}@redis.test",
        7,
        b"file",
        MemoryStore(),
    ],
)
def test_an_unknown_setting_is_refused_and_not_repeated(setting: Any) -> None:
    """An unknown setting is refused: the message lists the known ones and does not repeat it."""
    with pytest.raises(ConfigurationError, match=r"^GATEWAY_TOKEN_STORE must be file, ") as caught:
        open_store(setting, KEY)

    assert CANARY not in texts_of(caught.value)


async def test_a_token_that_could_not_be_read_again_is_not_kept(tmp_path: Path) -> None:
    """A token that is longer than a record may be is refused when it is saved."""
    store = PrivateFileStore(KEY, tmp_path / "kept")

    with pytest.raises(TokenStoreError, match="longer than"):
        await store.save(Token("x" * MAX_RECORD))

    assert await store.load() is None
