import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway_sdk.auth import PrivateFileStore
from gateway_sdk.auth._login import server
from tests.auth.visits import join_threads, no_records, open_files, release_ports
from tests.support.failing_steps import others_than
from tests.support.logins import KEY, Clock, set_time
from tests.support.redis_server import RedisServer, running
from tests.support.secrecy import CANARY, logged


@pytest.fixture
async def traceless(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Require that a test leaves no task, thread, connection, warning or log record behind."""
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 60  # slow steps are normal on a slow machine
    caplog.set_level(logging.NOTSET)
    server._run(asyncio.sleep(0))  # its thread stays, once it has started
    release_ports()
    gc.freeze()  # only objects that are made from here on are checked
    tasks, files = asyncio.all_tasks(), open_files()
    yield
    join_threads()
    release_ports()
    for _ in range(4):  # turns in which aborted connections are closed
        await asyncio.sleep(0)
    assert others_than(tasks) == set()
    assert open_files() == files
    gc.collect()  # forgotten objects warn now, and pytest makes errors of warnings
    no_records(caplog)


@pytest.fixture
def discreet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Search the log records of all libraries for tokens and passwords."""
    caplog.set_level(logging.DEBUG)
    yield
    assert CANARY not in logged(caplog.get_records("call"))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return set_time(monkeypatch, Clock())


@pytest.fixture
def store(tmp_path: Path) -> PrivateFileStore:
    return PrivateFileStore(KEY, tmp_path / "state" / "tokens")


@pytest.fixture(scope="session")
def running_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("redis")) as server:
        yield server
