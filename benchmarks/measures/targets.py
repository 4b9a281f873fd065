"""Whether the commands that have targets of their own keep all of them."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any, Final

from benchmarks.measures.load import Figures
from benchmarks.processes import ROOT

TARGETS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "soak": (("soak",), ("--calls", "200")),
    "adaptive on a socket": (("adaptive",), ("--limit", "4", "--warm", "0.5", "--seconds", "0.5")),
    "adaptive, simulated": (("simulated",), ("--seeds", "1")),
    "small runs": (("small_runs",), ("--items", "20", "--rounds", "1")),
    "killed and resumed": (("resume",), ("--items", "50", "--kills", "1")),
    "workers killed": (("cluster", "kills"), ("400", "600")),
}
"""Commands beside `python -m benchmarks`, whose status is the number of missed targets; and what
makes them short."""


async def measure(variant: str, url: str, given: dict[str, Any]) -> Figures:
    """Run a command, keep what it prints in the folder, and return whether it kept its targets."""
    del url
    (module, *words), short = TARGETS[variant]
    more = short if given["short"] else ()
    command = [sys.executable, "-m", f"benchmarks.{module}", *words, *more]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE)
    printed, _ = await process.communicate()
    file = Path(given["folder"], f"{variant}.txt")
    await asyncio.to_thread(file.write_bytes, printed)
    return {"kept": float(process.returncode == 0)}
