"""Worker processes that are killed, asked to end, and started again."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from benchmarks.processes import ROOT


class Workers:
    """Some worker processes, each with a process group of its own, that write to one file."""

    def __init__(self, number: int, log: Path) -> None:
        self.cpu = 0.0  # seconds of those that have ended
        self._log = log
        self._processes = [self._started() for _ in range(number)]

    def __len__(self) -> int:
        return len(self._processes)

    def kill(self, index: int) -> None:
        """Kill a worker, and start another one in its place."""
        self._end(self._processes[index], signal.SIGKILL)
        self._processes[index] = self._started()

    def replace(self, index: int) -> None:
        """Ask a worker to end (SIGTERM), and start another one in its place."""
        self._end(self._processes[index], signal.SIGTERM)
        self._processes[index] = self._started()

    def revive(self) -> int:
        """Start workers again that ended by themselves; return how many."""
        ended = [n for n, process in enumerate(self._processes) if self._has_ended(process)]
        for index in ended:
            self._processes[index] = self._started()
        return len(ended)

    def stop(self, number: int = signal.SIGKILL) -> None:
        """End all."""
        processes, self._processes = self._processes, []
        for process in processes:
            self._signal(process, number)
        for process in processes:
            self._end(process, number)

    def _started(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            # What is run is ours.
            return subprocess.Popen(
                [sys.executable, "-m", "benchmarks.fleet.worker"],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def _has_ended(self, process: subprocess.Popen[bytes]) -> bool:
        return process.returncode is not None or self._reaped(process, os.WNOHANG)

    def _end(self, process: subprocess.Popen[bytes], number: int) -> None:
        self._signal(process, number)
        if process.returncode is None:
            self._reaped(process, 0)

    @staticmethod
    def _signal(process: subprocess.Popen[bytes], number: int) -> None:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    def _reaped(self, process: subprocess.Popen[bytes], options: int) -> bool:
        pid, status, usage = os.wait4(process.pid, options)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            self.cpu += usage.ru_utime + usage.ru_stime
        return bool(pid)
