"""Runs programs as `python -W error program.py` does, in forks of one process.

It has loaded what they import, which takes most of their time.
"""

import multiprocessing
import os
import runpy
import sys
import warnings
from pathlib import Path
from typing import Final

_LOADED: Final = ("auth.flow", "bulk._start", "models.records", "sandbox", "session", "_call.call")
_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([f"gateway_sdk.{name}" for name in _LOADED])


def run_in_fork(folder: Path, environment: dict[str, str]) -> int:
    """Run the program in a folder; return its status, and leave there what it printed."""
    process = _FORKS.Process(target=_be_program, args=(folder, environment))
    process.start()
    process.join()
    return process.exitcode or 0


def _be_program(folder: Path, environment: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for name, descriptor in {"out": 1, "err": 2}.items():
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), descriptor)
    warnings.simplefilter("error")
    sys.argv, sys.path[:0] = ["program.py"], [str(folder)]
    runpy.run_path("program.py", run_name="__main__")
