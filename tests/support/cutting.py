"""Cancels a coroutine wherever it can be cancelled."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Generator
from enum import Enum
from typing import Any, Final

import pytest


class How(Enum):
    """When exactly a task is cancelled."""

    AT_ONCE = "as soon as it is suspended"
    LATE = "in the turn in which what it waited for has happened"
    BY_TURN = "after so many turns of the event loop"


class Cut:
    """Runs a coroutine and cancels its task once.

    Attributes:
        done: Whether it was cancelled; else the coroutine ended before it came to that.
        left: What *measure* returned at that moment.
    """

    def __init__(
        self, work: Coroutine[Any, Any, Any], number: int, how: How, measure: Callable[[], int]
    ) -> None:
        self._work = work
        self._number = number
        self._how = how
        self._measure = measure
        self.done = False
        self.left = 0

    async def run(self) -> Any:
        """Run, and be cancelled at the suspension of that number."""
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        if self._how is How.BY_TURN:
            self._wait_and_cut(self._number)
            return await self._work
        return await self

    def __await__(self) -> Generator[Any, Any, Any]:
        thrown: BaseException | None = None
        for number in range(1, 100_000):
            try:
                awaited = self._work.throw(thrown) if thrown else self._work.send(None)
            except StopIteration as end:
                return end.value
            if number == self._number:
                if self._how is How.LATE and awaited is not None:
                    awaited.add_done_callback(self._cut)  # before the task's own
                else:
                    self._cut()
            thrown = None
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's
                thrown = error
        raise AssertionError

    def _wait_and_cut(self, turns: int) -> None:
        loop = asyncio.get_running_loop()
        if turns:
            loop.call_soon(self._wait_and_cut, turns - 1)
        elif not self._task.done():
            self._cut()

    def _cut(self, _: object = None) -> None:
        self.done = True
        self.left = self._measure()
        self._task.cancel()


class SentBytes:
    """Counts what this process hands to its sockets for a port.

    Attributes:
        port: Which.
    """

    _SENDING: Final = [name for name in ("send", "sendmsg") if hasattr(socket.socket, name)]
    _FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.port = 0
        self._number = 0
        for name in self._SENDING:
            monkeypatch.setattr(socket.socket, name, self._counting(getattr(socket.socket, name)))

    def __call__(self) -> int:
        return self._number

    def _counting(self, send: Callable[..., int]) -> Callable[..., int]:
        def counting(sock: socket.socket, *args: Any) -> int:
            number = send(sock, *args)
            # The event loop wakes itself through a socket that has no port.
            if sock.family in self._FAMILIES and sock.getpeername()[1] == self.port:
                self._number += number
            return number

        return counting
