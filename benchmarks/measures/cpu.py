"""CPU time per call, at several numbers of callers."""

from typing import Any

from benchmarks.measures.load import Figures, after, counted, drive, warm
from benchmarks.peers import PEERS


def level(callers: int, milliseconds: int) -> str:
    """Name a number of callers and the time that the server takes."""
    return f"{callers}+{milliseconds}ms" if milliseconds else f"{callers}"


async def measure(peer: str, url: str, given: dict[str, Any]) -> Figures:
    """Measure each level, `[callers, milliseconds]`, with a client of its own."""
    figures: Figures = {}
    for callers, milliseconds in given["levels"]:
        async with PEERS[peer].open(after(url, milliseconds), callers) as call:
            await warm(call, callers)
            seen = await counted(url, lambda: drive(call, callers, given["seconds"]))  # noqa: B023
        name = level(callers, milliseconds)
        figures |= {f"{figure} {name}": value for figure, value in seen.items()}
    return figures
