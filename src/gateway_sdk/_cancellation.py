"""Cancellations of a task by its own code."""

import asyncio
from typing import Any


class OwnCancellation:
    """A cancellation of the current task that its own code asks for, from a callback, and ends."""

    __slots__ = ("_base", "_is_asked_for", "_task")

    def __init__(self) -> None:
        task: Any = asyncio.current_task()
        self._task: asyncio.Task[object] = task
        self._base = self._task.cancelling()
        self._is_asked_for = False

    def cancel(self) -> bool:
        """Cancel the task, unless it is cancelled already; tell whether it is by this call."""
        # What somebody else has cancelled is left alone: anyio knows its own cancellation by a
        # message, which a second one would replace.
        if self._is_asked_for or self._task.cancelling() > self._base:
            return False
        self._is_asked_for = True
        self._task.cancel()
        return True

    def take_back(self, kind: type[BaseException] | None) -> bool:
        """End the cancellation; tell whether this error was raised by it alone."""
        if not self._is_asked_for:
            return False
        self._is_asked_for = False
        return self._task.uncancel() <= self._base and kind is asyncio.CancelledError
