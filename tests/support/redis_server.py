"""A real Redis of a test's own, which can be killed and started again."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from gateway_sdk import TokenStoreError
from gateway_sdk.auth import RedisStore
from tests.support.logins import make_token
from tests.support.secrecy import CANARY, texts_of

PROGRAM: Final = shutil.which("redis-server")

NEEDS_REDIS: Final = pytest.mark.skipif(
    PROGRAM is None, reason="not tested, because no redis-server was found"
)


class RedisServer:
    """A redis-server that keeps its files in a folder, and listens at a socket in it."""

    def __init__(self, folder: Path, *options: str) -> None:
        # Its address on this machine, without a password.
        self.url = f"unix://{folder / 'redis.sock'}"
        self._command = [
            PROGRAM or "redis-server",
            *("--port", "0"),
            *("--unixsocket", str(folder / "redis.sock"), "--unixsocketperm", "700"),
            *("--dir", str(folder), "--save", "", "--appendfsync", "always"),
            *options,
        ]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it takes connections.

        Raises:
            RuntimeError: it does not start, for the reason that it says.
        """
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, encoding="utf-8")
        assert self._process.stdout is not None
        said: list[str] = []
        for line in self._process.stdout:
            said.append(line)
            if "ready to accept connections" in line.lower():
                return
        raise RuntimeError("redis-server did not start: " + "".join(said))

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


async def refusal(store: RedisStore) -> str:
    """Return what every use of a store fails with, having looked for secrets in it."""
    told: set[str] = set()
    for use in (store.load(), store.save(make_token("new")), store.delete()):
        with pytest.raises(TokenStoreError) as caught:
            await use
        assert CANARY not in texts_of(caught.value)
        assert caught.value.__suppress_context__
        told.add(str(caught.value))
    (text,) = told
    return text
