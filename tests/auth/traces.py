"""What a login must not leave behind: tasks, threads, connections, warnings, log records."""

import logging
import os
import threading

import pytest

from gateway_sdk.auth import _receiver
from gateway_sdk.auth._loopback import close_all

SECRETS = ("CANARY", "state=")


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
