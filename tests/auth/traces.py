"""What a login must not leave behind: tasks, threads, connections, warnings, log records."""

import asyncio
import gc
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway_sdk.auth import _receiver
from gateway_sdk.auth._loopback import close_all
from tests.support.failing_steps import others_than

SECRETS = ("CANARY", "state=")


@asynccontextmanager
async def no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    """Require that a test leaves nothing behind, with asyncio's debug mode."""
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 60  # slow steps are normal on a slow machine
    caplog.set_level(logging.NOTSET)
    _receiver._run(asyncio.sleep(0))  # its thread stays, once it has started
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
    gc.unfreeze()
    no_records(caplog)


def release_ports() -> None:
    """Free the ports that are kept because a tab may still be open there."""
    for place in list(_receiver._kept):
        close_all(_receiver.take_port(place))


def no_records(caplog: pytest.LogCaptureFixture) -> None:
    """Require that only asyncio's debug messages were logged, and no secret."""
    setup, call = caplog.get_records("setup"), caplog.get_records("call")
    for record in [*setup, *call, *caplog.get_records("teardown")]:
        assert (record.name, record.levelno <= logging.INFO) == ("asyncio", True), record
        assert not any(secret in record.getMessage() for secret in SECRETS)


def open_files() -> list[str]:
    if os.name == "nt":
        return []
    return sorted(os.listdir("/dev/fd"))  # noqa: PTH208 - it is no folder


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gateway_sdk-login"]


def join_threads() -> None:
    """Wait until the opened browsers have ended."""
    for thread in threads():
        thread.join()
