"""A server that all processes of a test run use together."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

if sys.platform != "win32":
    import fcntl

Start = Callable[[Path], tuple[str, Callable[[], None]]]
"""Starts a server with its files in a folder; returns its address, and what ends it."""


def address_of(name: str, start: Start, request: pytest.FixtureRequest) -> str:
    """Return the address of a server that the first process of the run starts for all.

    That process ends it when no other one uses it any more: each holds a lock until it ends,
    however that happens. It waits outside of its tests, where no time limit of a test counts.
    """
    factory: pytest.TempPathFactory = request.getfixturevalue("tmp_path_factory")
    own = factory.getbasetemp()
    common = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    address = common / f"{name}.address"
    users = (common / f"{name}.users").open("w")
    request.config.add_cleanup(users.close)
    with (common / f"{name}.start").open("w") as starting:
        fcntl.flock(starting, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        if address.exists():
            return address.read_text()
        url, end = start(factory.mktemp(name))
        address.write_text(url)

    def end_as_the_last() -> None:
        fcntl.flock(users, fcntl.LOCK_EX)
        address.unlink()
        end()

    request.config.add_cleanup(end_as_the_last)
    return url
