"""What every token store does, with the records that they share; and the keyring."""

import asyncio
import gc
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import keyring
import keyring.backend
import keyring.backends.chainer
import keyring.backends.fail
import keyring.backends.null
import keyring.errors
import pytest
import redis

from gateway_sdk import ConfigurationError, LoginRequiredError, MissingExtraError, TokenStoreError
from gateway_sdk.auth import (
    KeyringStore,
    MemoryStore,
    PrivateFileStore,
    RedisStore,
    SharedTokenSource,
    Token,
    TokenKey,
    TokenStore,
)
from gateway_sdk.auth._stores.store import _MAX_RECORD, dump, load
from gateway_sdk.auth.token import text_of
from tests.support.logins import KEY, Person, make_token
from tests.support.records import BROKEN, GOOD, IN_A_STORE, names_in
from tests.support.redis_server import NEEDS_REDIS, RedisServer, refusal
from tests.support.secrecy import CANARY, texts_of


class Shelf(NamedTuple):
    """A kind of store, and the place behind it as another program sees it."""

    store: Callable[[TokenKey], TokenStore]
    names: Callable[[], list[str]]  # of all records
    put: Callable[[bytes], object]  # writes the record of KEY past the store
    name: str  # of the record of KEY
    place: str  # as errors call it


class Ring(keyring.backend.KeyringBackend):
    """A keyring in memory, which records the threads that use it, and fails on request."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}
        self.threads: set[int] = set()
        self.error: Exception | None = None

    def _use(self) -> None:
        self.threads.add(threading.get_ident())
        if self.error:
            raise self.error

    def get_password(self, service: str, username: str) -> str | None:
        self._use()
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._use()
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._use()
        if self.kept.pop((service, username), None) is None:
            raise keyring.errors.PasswordDeleteError


def _file(request: pytest.FixtureRequest) -> Shelf:
    folder: Path = request.getfixturevalue("tmp_path") / "state" / "tokens"
    store = partial(PrivateFileStore, folder=folder)
    path = store(KEY).path

    def put(record: bytes) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_bytes(record)

    return Shelf(store, lambda: names_in(folder), put, path.name, f"the file {path}")


def _keyring(request: pytest.FixtureRequest) -> Shelf:
    ring: Ring = request.getfixturevalue("ring")
    entry = ("gateway-sdk", KEY.digest)

    def put(record: bytes) -> None:
        ring.kept[entry] = record.decode()

    def names() -> list[str]:
        return [f"{service}/{name}" for service, name in ring.kept]

    return Shelf(KeyringStore, names, put, "/".join(entry), "the keyring")


def _redis(request: pytest.FixtureRequest) -> Shelf:
    server: RedisServer = request.getfixturevalue("running_redis")
    name = f"gateway-sdk:token:{KEY.digest}"
    client = redis.Redis.from_url(server.url)
    request.addfinalizer(client.close)
    client.flushall()

    def names() -> list[str]:
        return [key.decode() for key in client.scan_iter()]

    store = partial(RedisStore, server.url)
    place = f"Redis at {server.url.removeprefix('unix://')}"
    return Shelf(store, names, partial(client.set, name), name, place)


SHELVES = {"file": _file, "keyring": _keyring, "redis": _redis}


@pytest.fixture
def ring() -> Iterator[Ring]:
    before, ring = keyring.get_keyring(), Ring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


@pytest.fixture
def shelf(request: pytest.FixtureRequest) -> Shelf:
    """Provide the kind of store that the test's parameter names."""
    return SHELVES[request.param](request)


KINDS = [pytest.param(kind, marks=NEEDS_REDIS if kind == "redis" else ()) for kind in SHELVES]
every_kind = pytest.mark.parametrize("shelf", KINDS, indirect=True)
pytestmark = pytest.mark.usefixtures("discreet", "ring")


@every_kind
async def test_a_store_keeps_the_last_token(shelf: Shelf) -> None:
    store = shelf.store(KEY)
    assert store.key is KEY
    assert await store.load() is None
    await store.delete()
    for token in (make_token("first", expires_at=4e9), Token(CANARY, obtained_at=1.5, scope="b a")):
        await store.save(token)
        assert await store.load() == await shelf.store(KEY).load() == token
        assert shelf.names() == [shelf.name]
    assert CANARY not in repr(store)
    await store.delete()
    assert await store.load() is None
    assert shelf.names() == []


async def test_a_store_in_memory_keeps_the_last_token() -> None:
    """For itself only; its repr shows no token."""
    store = MemoryStore(KEY)
    assert (store.key, await store.load()) == (KEY, None)
    for name in ("first", "second"):
        await store.save(token := make_token(name))
        assert await store.load() is token
    assert CANARY not in repr(store)
    await store.delete()
    await store.delete()
    assert await store.load() is None


@every_kind
async def test_each_key_has_a_record_of_its_own(shelf: Shelf) -> None:
    other_key = TokenKey(KEY.authorization_url, KEY.client_id, "https://other.test")
    mine, other = shelf.store(KEY), shelf.store(other_key)
    await mine.save(token := make_token("mine"))
    assert await other.load() is None
    await other.save(make_token("other"))
    await other.delete()
    assert await mine.load() == token


@every_kind
@pytest.mark.parametrize("kind", IN_A_STORE)
async def test_a_broken_record_is_an_error_that_does_not_show_it(shelf: Shelf, kind: str) -> None:
    """It is not changed where nobody can log in; a login replaces it."""
    try:
        shelf.put(IN_A_STORE[kind])
    except UnicodeDecodeError:
        return  # a keyring holds text only
    told = f"{shelf.place} has no valid token for https://gateway.test: log in again"
    for read in (shelf.store(KEY).load, SharedTokenSource(shelf.store(KEY)).token):
        with pytest.raises(TokenStoreError) as caught:
            await read()
        assert str(caught.value) == told
        assert CANARY not in texts_of(caught.value)
    token = await SharedTokenSource(shelf.store(KEY), Person()).token()
    assert await shelf.store(KEY).load() == token


@every_kind
async def test_a_token_that_could_not_be_read_again_is_not_kept(shelf: Shelf) -> None:
    await shelf.store(KEY).save(token := make_token("kept"))
    with pytest.raises(TokenStoreError, match="longer than"):
        await shelf.store(KEY).save(Token("x" * _MAX_RECORD))
    assert await shelf.store(KEY).load() == token


@every_kind
async def test_two_workers_share_one_login(shelf: Shelf) -> None:
    """A source finds the token of another one; after a refusal, one login serves both."""
    person, other_person = Person(), Person()
    one = SharedTokenSource(shelf.store(KEY), person)
    other = SharedTokenSource(shelf.store(KEY), other_person)
    headless = SharedTokenSource(shelf.store(KEY))
    with pytest.raises(LoginRequiredError):
        await headless.token()
    first = await one.token()
    assert await other.token() == await headless.token() == first
    second = await one.token(rejected=first)
    assert await other.token(rejected=first) == await headless.token(rejected=first) == second
    assert text_of(second) == f"{CANARY}-2"
    assert (person.asked, other_person.asked) == (2, 0)


@every_kind
@pytest.mark.parametrize("side_by_side", [False, True])
def test_a_store_serves_any_event_loop(shelf: Shelf, side_by_side: bool) -> None:
    async def use() -> None:
        for _ in range(20):
            await store.save(make_token("kept"))
            loaded.append(await store.load())

    store, loaded = shelf.store(KEY), list[Token | None]()
    threads = [threading.Thread(target=asyncio.run, args=(use(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
        if not side_by_side:
            thread.join()
    for thread in threads:
        thread.join()
    assert [text_of(token) for token in loaded if token] == [f"{CANARY}-kept"] * 40


def test_a_record_has_the_key_of_its_token() -> None:
    """The token and the three parts of the key, and nothing else: a refresh token is not kept."""
    record = dump(make_token("kept", expires_at=2e9), KEY)
    assert json.loads(record) == {
        "access_token": f"{CANARY}-kept",
        "expires_at": 2_000_000_000.0,
        "obtained_at": 1_999_996_400.0,
        "scope": [],
        "authorization_url": "https://login.test/authorize",
        "client_id": "client-1",
        "gateway": "https://gateway.test",
    }
    more = json.dumps({**GOOD, "refresh_token": "RT", "version": 2})
    assert (read := load(more, KEY, "the shelf"))
    assert dump(read, KEY) == record


@pytest.mark.parametrize("record", BROKEN.values(), ids=BROKEN)
def test_a_broken_record_is_refused(record: bytes) -> None:
    with pytest.raises(TokenStoreError) as caught:
        load(record, KEY, "the shelf")
    assert str(caught.value).startswith("the shelf has no valid token for https://gateway.test")
    assert CANARY not in texts_of(caught.value)
    assert caught.value.__context__ is None


# --- what is particular to the keyring of the operating system --------------------------------


class PlaintextKeyring(Ring):
    """Its name says what it is."""


async def test_two_logouts_at_a_time_both_succeed(
    ring: Ring, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, delete = KeyringStore(KEY), ring.delete_password

    def after_another(service: str, username: str) -> None:
        delete(service, username)
        delete(service, username)

    def never(service: str, username: str) -> None:
        raise keyring.errors.PasswordDeleteError

    await store.save(make_token("kept"))
    monkeypatch.setattr(ring, "delete_password", after_another)
    await store.delete()
    assert ring.kept == {}
    await store.save(make_token("kept"))
    monkeypatch.setattr(ring, "delete_password", never)
    with pytest.raises(TokenStoreError, match="cannot be used here: PasswordDeleteError"):
        await store.delete()


def chain(monkeypatch: pytest.MonkeyPatch, *rings: Ring) -> Any:
    """Return what uses these one after the other, as keyring does if several are installed."""
    monkeypatch.setattr(keyring.backend, "get_all_keyring", lambda: list(rings))
    return keyring.backends.chainer.ChainerBackend()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda _: keyring.backends.fail.Keyring(), "cannot be used here: NoKeyringError"),  # type: ignore[no-untyped-call]
        (lambda _: keyring.backends.null.Keyring(), "here is switched off: it stores nothing"),  # type: ignore[no-untyped-call]
        (lambda _: PlaintextKeyring(), "here is a plain file: use PrivateFileStore"),
        (lambda patch: chain(patch, PlaintextKeyring()), "here is a plain file"),
        (chain, "here has no backend"),
    ],
)
async def test_what_keeps_no_secret_is_refused(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[pytest.MonkeyPatch], Any], told: str
) -> None:
    """The token is not stored elsewhere, such as in a plain file."""
    keyring.set_keyring(backend := make(monkeypatch))
    assert (await refusal(KeyringStore(KEY))).startswith(f"the keyring {told}")
    for ring in getattr(backend, "backends", [backend]):
        assert not getattr(ring, "threads", None)


@pytest.mark.parametrize("is_first", [False, True])
async def test_a_keyring_beside_a_plain_file_is_used(
    monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """keyrings.alt adds a plain file to the chain, which must get nothing."""
    ring, second, plain = Ring(), Ring(), PlaintextKeyring()
    rings = (ring, plain, second) if is_first else (plain, ring, second)
    keyring.set_keyring(chain(monkeypatch, *rings))
    await KeyringStore(KEY).save(token := make_token("kept"))
    assert await KeyringStore(KEY).load() == token
    assert list(ring.kept) == [("gateway-sdk", KEY.digest)]
    await KeyringStore(KEY).delete()
    assert ring.kept == second.kept == plain.kept == {}
    assert plain.threads == set()


@pytest.mark.parametrize(
    "error",
    [
        keyring.errors.KeyringLocked(CANARY),
        keyring.errors.InitError(CANARY),
        OSError(CANARY),
        LookupError(CANARY),
    ],
)
async def test_any_error_of_a_keyring_is_a_store_error(ring: Ring, error: Exception) -> None:
    ring.error = error
    told = f"the keyring cannot be used here: {type(error).__name__}"
    assert await refusal(KeyringStore(KEY)) == told


async def test_the_failure_of_work_that_others_wait_for_is_told_once(
    monkeypatch: pytest.MonkeyPatch, ring: Ring, caplog: pytest.LogCaptureFixture
) -> None:
    """Asyncio would report it to the log, with the text of the keyring."""
    begun, go_on = threading.Event(), threading.Event()

    def fail(*_: str) -> str | None:
        begun.set()
        assert go_on.wait(20)
        raise LookupError(CANARY)

    monkeypatch.setattr(ring, "get_password", fail)
    store = KeyringStore(KEY)
    load = asyncio.create_task(store.load())
    assert await asyncio.to_thread(begun.wait, 20)
    save = asyncio.create_task(store.save(make_token("new")))
    left = asyncio.create_task(store.save(make_token("other")))
    await asyncio.sleep(0)
    left.cancel()
    await asyncio.wait([left])
    go_on.set()
    with pytest.raises(TokenStoreError, match="LookupError"):
        await load
    await save
    del load, left
    gc.collect()
    assert caplog.text == ""


HANGING = """
import asyncio, threading
import keyring
from gateway_sdk.auth import KeyringStore, PrivateFileStore, Token, TokenKey

async def main():
    key = TokenKey("https://login.test/authorize", "client-1", "https://gateway.test")
    for store in (KeyringStore(key), PrivateFileStore(key, "/nowhere")):
        for work in (store.load(), store.save(Token("new")), store.delete()):
            try:
                await asyncio.wait_for(work, 0.01)
            except TimeoutError:
                print("late")

def hangs(*_):
    threading.Event().wait()

keyring.get_keyring = hangs
PrivateFileStore._read = PrivateFileStore._write = PrivateFileStore._remove = hangs
asyncio.run(main())
"""


def test_a_store_that_hangs_keeps_no_process_from_ending() -> None:
    """A keyring may wait for a user who is not there, and a file for a server."""
    command = [sys.executable, "-W", "error", "-c", HANGING]
    ended = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, [b"late"] * 6, b"")


@pytest.mark.parametrize(
    ("extra", "make"), [("keyring", KeyringStore), ("redis", partial(RedisStore, "redis://"))]
)
def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, extra: str, make: Callable[[TokenKey], TokenStore]
) -> None:
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'gateway-sdk\[{extra}\]'"):
        make(KEY)


@pytest.mark.parametrize(
    "make", [MemoryStore, PrivateFileStore, KeyringStore, partial(RedisStore, "redis://")]
)
@pytest.mark.parametrize("key", ["key", 7, TokenKey])
def test_a_key_that_is_none_is_named(make: Callable[[Any], TokenStore], key: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^key must be a TokenKey"):
        make(key)
