"""Every kind of token store, and the place behind it as another program sees it."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import keyring
import keyring.backend
import keyring.errors
import pytest
import redis

from gateway_sdk.auth import (
    KeyringStore,
    PrivateFileStore,
    RedisStore,
    TokenKey,
    TokenStore,
)
from tests.support.file_store import names_in
from tests.support.logins import KEY
from tests.support.redis_server import RedisServer


class Shelf(NamedTuple):
    """A kind of store.

    Attributes:
        store: Opens the store of a key.
        names: Returns the names of all records.
        put: Writes the record of KEY past the store.
        name: The name of the record of KEY.
        place: What errors call it.
    """

    store: Callable[[TokenKey], TokenStore]
    names: Callable[[], list[str]]
    put: Callable[[bytes], object]
    name: str
    place: str


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
