"""Whether the commands that have targets of their own keep all of them."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any, Final

from benchmarks.measures.load import Figures
from benchmarks.processes import ROOT

TARGETS: Final = {
    "soak": ("soak",),
    "adaptive on a socket": ("adaptive",),
    "adaptive, simulated": ("simulated",),
    "small runs": ("small_runs",),
    "killed and resumed": ("resume",),
    "workers killed": ("cluster", "kills"),
}
"""Commands beside `python -m benchmarks`, whose status is the number of missed targets."""


async def measure(variant: str, url: str, given: dict[str, Any]) -> Figures:
    """Run a command, keep what it prints in the folder, and return whether it kept its targets."""
    del url
    module, *words = TARGETS[variant]
    command = [sys.executable, "-m", f"benchmarks.{module}", *words, *given["more"]]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE)
    printed, _ = await process.communicate()
    file = Path(given["folder"], f"{variant}.txt")
    await asyncio.to_thread(file.write_bytes, printed)
    return {"kept": float(process.returncode == 0)}
