"""What an import takes in a fresh interpreter."""

import json
import sys
from typing import Any, Final

from benchmarks.measures.load import Figures
from benchmarks.processes import child

IMPORT: Final = """
import json, time
wall, cpu = time.perf_counter(), time.process_time()
{}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(json.dumps({{"wall_ms": wall * 1000, "cpu_ms": cpu * 1000}}))
"""


async def measure(statement: str, url: str, given: dict[str, Any]) -> Figures:
    """Import, first once for the caches of the disk, and return what it took."""
    del url, given
    command = [sys.executable, "-c", IMPORT.format(statement)]
    child(command)
    figures: Figures = json.loads(child(command)[0])
    return figures
