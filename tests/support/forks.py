"""Runs programs as `python -W error program.py` does, in forks of one process.

It has loaded what the programs import, which takes most of their time.
"""

import gc
import json
import os
import runpy
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

LOADED: Final = ("auth.flow", "bulk._start", "models.records", "sandbox", "session", "_call.call")


class Forks:
    def __init__(self) -> None:
        command = [sys.executable, "-W", "error", "-m", __name__]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, folder: Path, environment: dict[str, str]) -> int:
        """Run the program in a folder; return its status, and leave what it printed there."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps([str(folder), environment]), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate()


def _be_program(folder: str, environment: dict[str, Any]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for descriptor, name in enumerate((os.devnull, "out", "err")):
        file = os.open(name, os.O_RDWR | os.O_CREAT)
        os.dup2(file, descriptor)
        os.close(file)
    sys.argv, sys.path[0] = ["program.py"], folder
    runpy.run_path("program.py", run_name="__main__")


def main() -> None:
    for name in LOADED:
        import_module(f"gateway_sdk.{name}")
    gc.freeze()
    for line in sys.stdin:
        if not (child := os.fork()):
            _be_program(*json.loads(line))
            break
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
