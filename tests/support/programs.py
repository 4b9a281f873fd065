"""Servers that are not ours, as children of the test run: started, killed, started again."""

import subprocess
import time
from pathlib import Path
from typing import Any


class Program:
    """A server that runs in the foreground."""

    patience = 60.0  # seconds in which it starts, even on a busy machine

    def __init__(self, command: list[str], log: Path, **options: Any) -> None:
        self._command = command
        self._log = log
        self._options = options  # of its process
        self._process: subprocess.Popen[bytes] | None = None

    def answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and wait until it answers; call it in a thread if a loop runs in this one."""
        end = time.monotonic() + self.patience
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._options
            )
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > end:
                self.kill()
                said = self._log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"{self._command[0]} did not start: {said}")
            time.sleep(0.01)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
