import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway_sdk.auth import PrivateFileStore
from tests.auth.traces import no_traces
from tests.support.logins import KEY, Clock
from tests.support.redis_server import RedisServer
from tests.support.secrecy import CANARY, logged


@pytest.fixture
async def traceless(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Require that a test leaves no task, thread, connection, warning or log record behind."""
    async with no_traces(caplog):
        yield


@pytest.fixture
def discreet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Search the log records of all libraries for tokens and passwords."""
    caplog.set_level(logging.DEBUG)
    yield
    assert CANARY not in logged(caplog.get_records("call"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> PrivateFileStore:
    """Provide a store in a folder that does not exist yet."""
    return PrivateFileStore(KEY, tmp_path / "state" / "tokens")


@pytest.fixture(scope="session")
def running_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    try:
        server.start()
        yield server
    finally:
        server.kill()
