"""What a command takes from the start of its interpreter to its end."""

import sys
from typing import Any, Final

from benchmarks.measures.load import Figures
from benchmarks.processes import child

COMMANDS: Final = {
    "python -c 'import typer, rich'": ("-c", "import typer, rich"),
    # What the script `gateway` does, which is not installed everywhere.
    "gateway --version": ("-c", "from gateway_sdk.cli import main; main()", "--version"),
}


async def measure(command: str, url: str, given: dict[str, Any]) -> Figures:
    """Run a command, first once for the caches of the disk, and return what it took."""
    del url, given
    arguments = [sys.executable, *COMMANDS[command]]
    child(arguments)
    _, seconds, cpu = child(arguments)
    return {"wall_ms": seconds * 1000, "cpu_ms": cpu * 1000}
