"""Instructions of an import in a bare environment, and of an item of `bulk.run`.

    python -m benchmarks.measures.counts WAY ITEMS FOLDER

runs so many items that do nothing, for valgrind to watch.
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

from benchmarks.measures.instructions import counted
from benchmarks.measures.load import Figures
from benchmarks.processes import ROOT
from gateway_sdk import bulk

IMPORTS: Final = {
    "import asyncio, httpx, tenacity, BaseModel": (
        "import asyncio, httpx, tenacity; from pydantic import BaseModel"
    ),
    "import GatewaySession": "from gateway_sdk import GatewaySession",
}
"""What is imported; without asyncio the yardstick would be shorter than any program."""
WAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "an item": {"concurrency": 25},
    "an item, adaptive": {"concurrency": "adaptive"},
    "an item, journal": {"concurrency": 25, "job": "benchmark"},
}
VALUE: Final = "x" * 1000  # what an item returns to a journal


async def measure(variant: str, url: str, given: dict[str, Any]) -> Figures:
    """Count thousands of instructions."""
    del url
    folder = Path(given["folder"])
    if variant in WAYS:
        few, many = given["items"]
        arguments = ("-m", "benchmarks.measures.counts", variant)
        difference = counted(*arguments, str(many), given["folder"]) - counted(
            *arguments, str(few), given["folder"]
        )
        return {"instructions_k": difference / (many - few) / 1000}
    path = os.pathsep.join((str(ROOT / "src"), str(bare(folder / "bare"))))
    imports = [
        counted("-S", "-c", f"import gc; gc.disable(); {statement}", PYTHONPATH=path)
        for statement in (IMPORTS[variant], "pass")
    ]
    return {"instructions_k": (imports[0] - imports[1]) / 1000}


def bare(folder: Path) -> Path:
    """Link what the package needs without extras: imports look at all that is installed."""
    folder.mkdir(exist_ok=True)
    names, seen = ["gateway-sdk"], set[str]()
    while names:
        if (name := names.pop()) in seen:
            continue
        seen.add(name)
        found = distribution(name)
        for place in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            link = folder / place
            if name != "gateway-sdk" and not link.exists():
                link.symlink_to(Path(str(found.locate_file(place))))
        needed = map(Requirement, found.requires or ())
        names += [
            one.name for one in needed if not one.marker or one.marker.evaluate({"extra": ""})
        ]
    return folder


async def run(way: str, items: int, folder: Path) -> None:
    """Run so many items that do nothing."""

    async def call(_: int) -> str:
        return VALUE

    options = dict(WAYS[way])
    if "job" in options:
        options["journal"] = folder / f"{items}.db"
        options["journal"].unlink(missing_ok=True)
    async for _ in bulk.run(call, range(items), **options):
        pass


if __name__ == "__main__":
    asyncio.run(run(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])))
