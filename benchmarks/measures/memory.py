"""What a client's process holds in memory, at rest and at work."""

from typing import Any

from benchmarks.measures.load import Figures, counted, drive
from benchmarks.peers import PEERS
from benchmarks.peers.request import check
from benchmarks.processes import memory, peak_memory


async def measure(peer: str, url: str, given: dict[str, Any]) -> Figures:
    """Measure in MiB: after one call, and the most while `callers` call for `seconds`."""
    async with PEERS[peer].open(url, given["callers"]) as call:
        check(await call())
        rest = memory()
        await counted(url, lambda: drive(call, given["callers"], given["seconds"]))
    return {"rest_mib": rest, "peak_mib": peak_memory()}
