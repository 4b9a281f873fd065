"""Whether the commands that have targets of their own keep all of them."""

import asyncio
import sys
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
    """Run a command, and return whether it kept what it has to keep."""
    del url
    module, *words = TARGETS[variant]
    command = [sys.executable, "-m", f"benchmarks.{module}", *words, *given["more"]]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=sys.stderr)
    return {"kept": float(await process.wait() == 0)}
