"""The tests that the README's command runs, on all processors."""

import os
import sys
import time
from typing import Any, Final

from benchmarks.measures.load import Figures
from benchmarks.processes import child

APART: Final = ("bare", "frozen", "real", "site")  # as in noxfile.py


async def measure(variant: str, url: str, given: dict[str, Any]) -> Figures:
    """Run the tests, all of which must pass, and return the seconds."""
    del variant, url
    parallel = ("-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal")
    apart = (f"--ignore=tests/{folder}" for folder in APART)
    began = time.perf_counter()
    child([sys.executable, "-m", "pytest", "-q", *parallel, *apart, *given["tests"]])
    return {"seconds": time.perf_counter() - began}
