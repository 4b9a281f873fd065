"""Servers that are not ours, as children of the test run: started, disturbed and ended here."""

import asyncio
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.support import programs

_LIMIT: Final = 20.0
"""Seconds after which something that should have happened counts as missing."""
_POLL: Final = 0.01
_FOLDERS: Final = os.pathsep.join(
    (str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin")
)


def find(name: str) -> str:
    """Return the path of a program, or skip the test that needs it."""
    path = shutil.which(name, path=_FOLDERS)
    if path is None:
        pytest.skip(f"not tested, because {name} was not found")
    return path


class Program(programs.Program):
    """A server in a process group of its own."""

    patience = _LIMIT

    def __init__(
        self, command: list[str], port: int, folder: Path, environment: Mapping[str, str]
    ) -> None:
        options = {"env": {**os.environ, **environment}, "start_new_session": True}
        super().__init__(command, folder / "output.txt", **options)
        self.port = port

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
        super().kill()

    def workers(self) -> set[int]:
        found = set[int]()
        for thread in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                found |= {int(child) for child in thread.read_text("ascii").split()}
        return found

    async def restart(self) -> None:
        await asyncio.to_thread(self.kill)
        await asyncio.to_thread(self.start)

    async def reload(self, number: signal.Signals) -> None:
        """Ask for new workers with a signal, and wait until all old ones are gone."""
        old = self.workers()
        os.kill(self.pid, number)
        await until(lambda: bool(self.workers() - old) and not self.workers() & old)

    async def kill_worker(self, number: int) -> None:
        old = self.workers()
        assert number in old
        os.kill(number, signal.SIGKILL)
        await until(lambda: bool(self.workers() - old))


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(_LIMIT):
        while not fact():  # noqa: ASYNC110 - another process has no events for us
            await asyncio.sleep(_POLL)


@contextmanager
def running(command: list[str], port: int, folder: Path, **environment: str) -> Iterator[Program]:
    program = Program(command, port, folder, environment)
    try:
        program.start()
        yield program
    finally:
        program.kill()
