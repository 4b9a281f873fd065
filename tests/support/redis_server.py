"""A real Redis of a test's own, which can be killed and started again."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from gateway_sdk import TokenStoreError
from gateway_sdk.auth import TokenStore
from tests.support.logins import make_token
from tests.support.programs import Program
from tests.support.secrecy import CANARY, texts_of

PROGRAM: Final = shutil.which("redis-server")

NEEDS_REDIS: Final = pytest.mark.skipif(
    PROGRAM is None, reason="not tested, because no redis-server was found"
)


class RedisServer(Program):
    """A redis-server that keeps its files in a folder, and listens at a socket in it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.url = f"unix://{folder / 'redis.sock'}"  # without a password
        command = [
            PROGRAM or "redis-server",
            *("--port", "0"),
            *("--unixsocket", str(folder / "redis.sock"), "--unixsocketperm", "700"),
            *("--dir", str(folder), "--save", "", "--appendfsync", "always"),
            *options,
        ]
        super().__init__(command, folder / "log")

    def answers(self) -> bool:
        return b"ready to accept connections" in self._log.read_bytes().lower()


@contextmanager
def running(folder: Path, *options: str) -> Iterator[RedisServer]:
    server = RedisServer(folder, *options)
    try:
        server.start()
        yield server
    finally:
        server.kill()


async def refusal(store: TokenStore) -> str:
    """Return what every use of a store fails with, having looked for secrets in it."""
    told: set[str] = set()
    for use in (store.load(), store.save(make_token("new")), store.delete()):
        with pytest.raises(TokenStoreError) as caught:
            await use
        assert CANARY not in texts_of(caught.value)
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        told.add(str(caught.value))
    (text,) = told
    return text
